-- What the working of windows took, over time, by part.
SELECT $__timeInterval(window_start) AS time, stage, avg(seconds) AS took
FROM stage_seconds
WHERE $__timeFilter(window_start)
GROUP BY time, stage
ORDER BY time, stage

-- How long after its end a window was worked, over time.
SELECT $__timeInterval(window_end) AS time, quantileExact(0.5)(late_s) AS "Median", max(late_s) AS "Longest"
FROM
(
    SELECT window_end, (toUnixTimestamp64Milli(worked_at) - toUnixTimestamp64Milli(window_end)) / 1000 AS late_s
    FROM windows
    WHERE $__timeFilter(window_end)
)
GROUP BY time
ORDER BY time

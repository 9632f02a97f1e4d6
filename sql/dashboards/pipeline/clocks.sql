-- How far the clocks of exporters are ahead of most others, over time: the six that are furthest off at the end.
WITH off AS
(
    SELECT exporter, max(abs(clock_offset_s)) AS off_s
    FROM exporter_clocks
    WHERE window_start >= $__toTime - INTERVAL 1 HOUR AND window_start <= $__toTime
    GROUP BY exporter
)
SELECT $__timeInterval(window_start) AS time, exporter, avg(clock_offset_s) AS ahead
FROM exporter_clocks
WHERE $__timeFilter(window_start) AND isNotNull(clock_offset_s)
    AND exporter IN (SELECT exporter FROM off ORDER BY off_s DESC, exporter LIMIT 6)
GROUP BY time, exporter
ORDER BY time, exporter

-- How far exporters are behind, over time: the twelve that are furthest at the end.
SELECT $__timeInterval(checked_at) AS time, label AS exporter, max(value) AS lag
FROM measures_log
WHERE measure = 'exporter_lag_seconds' AND $__timeFilter(checked_at)
    AND label IN
    (
        SELECT label
        FROM measures_log
        WHERE measure = 'exporter_lag_seconds' AND checked_at >= $__toTime - INTERVAL 1 HOUR AND checked_at <= $__toTime
        GROUP BY label
        ORDER BY max(value) DESC, label
        LIMIT 12
    )
GROUP BY time, exporter
ORDER BY time, exporter

-- The latest figures of the service, of the last hour of the span.
SELECT
    maxIf(value, measure = 'windows_behind') AS "Windows behind",
    maxIf(value, measure = 'spool_files') AS "Files waiting",
    maxIf(value, measure = 'memory_bytes') AS "Memory",
    (
        SELECT max(toUnixTimestamp64Milli(last_received_at) / 1000 - toUnixTimestamp64Nano(last_seen) / 1e9) FROM exporter_marks
    ) AS "Largest lag"
FROM
(
    SELECT measure, label, argMax(value, checked_at) AS value
    FROM measures_log
    WHERE measure IN ('windows_behind', 'spool_files', 'memory_bytes') AND $__timeFilter(checked_at)
        AND checked_at > $__toTime - INTERVAL 1 HOUR
    GROUP BY measure, label
)

-- Exporters that sent records in the span, the furthest behind first; clocks and timeouts as found in its last hour.
SELECT
    m.exporter AS "Exporter",
    m.last_seen AS "Last flow",
    (toUnixTimestamp64Milli(m.last_received_at) - intDiv(toUnixTimestamp64Nano(m.last_seen), 1000000)) / 1000 AS "Lag",
    c.clock_offset_s AS "Clock ahead",
    c.idle_timeout_s AS "Idle timeout",
    c.active_timeout_s AS "Active timeout"
FROM exporter_marks AS m
LEFT JOIN
(
    SELECT
        exporter,
        argMax(clock_offset_s, window_start) AS clock_offset_s,
        argMax(idle_timeout_s, window_start) AS idle_timeout_s,
        argMax(active_timeout_s, window_start) AS active_timeout_s
    FROM exporter_clocks
    WHERE window_start >= $__toTime - INTERVAL 1 HOUR AND window_start <= $__toTime
    GROUP BY exporter
) AS c ON m.exporter = c.exporter
WHERE m.last_received_at >= $__fromTime
ORDER BY "Lag" DESC, "Exporter"
LIMIT 500

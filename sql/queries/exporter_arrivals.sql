-- Purpose: read how far the exporters have come that sent something lately.
-- Parameters: since: how far back it is looked, seconds.
-- Result: exporter String; last_ns Int64, the end of its newest flow, nanoseconds since the epoch; by exporter.
SELECT
    exporter,
    toUnixTimestamp64Nano(last_seen) AS last_ns
FROM exporter_marks
WHERE last_received_at >= now64(3) - toIntervalSecond({since:UInt32})
ORDER BY exporter;

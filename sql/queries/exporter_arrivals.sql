-- Purpose: read how far the exporters have come that sent something lately, and when their last records arrived.
-- Parameters: since: how far back it is looked, seconds.
-- Result: exporter String; last_ns Int64, the end of its newest flow; received_ns Int64; now_ns Int64, the database's present;
--   nanoseconds since the epoch.
SELECT
    exporter,
    toUnixTimestamp64Nano(last_seen) AS last_ns,
    toUnixTimestamp64Milli(last_received_at) * 1000000 AS received_ns,
    toUnixTimestamp64Milli(now64(3)) * 1000000 AS now_ns
FROM exporter_marks
WHERE last_received_at >= now64(3) - toIntervalSecond({since:UInt32})
ORDER BY exporter;

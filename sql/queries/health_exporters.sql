-- Purpose: see how each exporter stands at this moment.
-- Parameters: none.
-- Result: exporter String; lag_s Float64: since the end of its last flow, seconds; silent_s Float64: since its last record
--   arrived, seconds; ahead_s Float64: how far the end of a flow lay after its arrival at most, seconds; by exporter.
SELECT
    exporter,
    (toUnixTimestamp64Milli(now64(3)) - toUnixTimestamp64Milli(last_seen)) / 1000 AS lag_s,
    (toUnixTimestamp64Milli(now64(3)) - toUnixTimestamp64Milli(last_received_at)) / 1000 AS silent_s,
    ahead_s
FROM exporter_marks
ORDER BY exporter;

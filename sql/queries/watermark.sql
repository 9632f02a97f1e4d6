-- Purpose: find out up to when the flows have arrived: what ended before the watermark is here, the late ones apart.
--   It is where the exporter that is furthest behind has come to, among those that sent something within the last
--   {silent_after_s} seconds; but one whose clock is behind, or that catches up, holds the others back by {hold_s} seconds at
--   most: the watermark is that close to where half of them have come. Where none sends, all that has passed is here.
-- Parameters: silent_after_s, hold_s: seconds.
-- Result: one row. watermark_ns Int64, nanoseconds since the epoch; exporters UInt64; silent UInt64: those that send no more.
WITH
    now64(3) AS present,
    last_received_at >= present - toIntervalSecond({silent_after_s:UInt32}) AS sends,
    toUnixTimestamp64Nano(last_seen) AS mark_ns
SELECT
    if(
        countIf(sends) = 0,
        toUnixTimestamp64Milli(present) * 1000000,
        greatest(
            minIf(mark_ns, sends),
            quantileExactLowIf(0.5)(mark_ns, sends) - toInt64({hold_s:UInt32}) * 1000000000
        )
    ) AS watermark_ns,
    count() AS exporters,
    countIf(NOT sends) AS silent
FROM exporter_marks;

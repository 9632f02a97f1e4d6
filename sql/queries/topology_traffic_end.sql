-- Purpose: find until when flows have come from at least half of the exporters: one clock far ahead moves nothing.
-- Parameters: none.
-- Result: one row. until_ns Int64, nanoseconds since the epoch; 0 where no flow has landed.
SELECT toUnixTimestamp64Nano(ifNull(quantileExactLowOrNull(0.5)(last_seen), toDateTime64(0, 9, 'UTC'))) AS until_ns
FROM exporter_marks;

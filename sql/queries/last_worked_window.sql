-- Purpose: find where the newest window that was worked ends, in windows of a given length.
-- Parameters: window_s.
-- Result: one row, end_ns Nullable(Int64), nanoseconds since the epoch; NULL where none was worked.
SELECT maxOrNull(toUnixTimestamp64Nano(window_end)) AS end_ns
FROM windows
WHERE status = 'worked'
    AND toUnixTimestamp64Nano(window_end) - toUnixTimestamp64Nano(window_start) = {window_s:Int64} * 1000000000;

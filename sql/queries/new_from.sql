-- Purpose: find from where on windows of a given length are new: the end of the newest one that was worked, in part or
--   whole, or given up.
-- Parameters: window_s; max_attempts: a window that failed is given up once its analysis was begun so often.
-- Result: one row, end_ns Nullable(Int64), nanoseconds since the epoch; NULL where all are new.
SELECT maxOrNull(toUnixTimestamp64Nano(window_end)) AS end_ns
FROM windows
WHERE (status != 'failed' OR attempts >= {max_attempts:UInt32})
    AND toUnixTimestamp64Nano(window_end) - toUnixTimestamp64Nano(window_start) = {window_s:Int64} * 1000000000;

-- Purpose: find how many records had arrived at the first analysis of a window.
-- Parameters: start_ns and end_ns of the window, nanoseconds since the epoch.
-- Result: first_flows UInt64; no row where no analysis of it has ended.
SELECT first_flows
FROM windows_log
WHERE window_start = fromUnixTimestamp64Nano({start_ns:Int64}) AND window_end = fromUnixTimestamp64Nano({end_ns:Int64})
ORDER BY revision DESC
LIMIT 1;

-- Purpose: find the end of the newest flow that has arrived: windows that end before it hold all that was sent by then.
-- Parameters: none.
-- Result: one row, newest_ns Int64, nanoseconds since the epoch; 0 without flows.
SELECT toUnixTimestamp64Nano(max(last_seen)) AS newest_ns
FROM exporter_marks;

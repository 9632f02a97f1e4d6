-- Purpose: find the end of the newest flow that has arrived: windows that end before it hold all that was sent by then.
-- Parameters: none.
-- Result: one row, newest_ns Int64, nanoseconds since the epoch; 0 without flows. It is the latest last_seen of exporter_marks,
--   whose part maxima need not be put together by exporter for that.
SELECT max(mark_ns) AS newest_ns
FROM exporter_marks_log;

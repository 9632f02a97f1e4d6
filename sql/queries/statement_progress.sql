-- Purpose: report the progress of a running statement.
-- Parameters: mark: what it carries as its log_comment.
-- Result: one row, none once it has ended: read_rows, rows read so far; total_rows, how many there may be to read, 0 where unknown.
SELECT read_rows, total_rows_approx AS total_rows
FROM system.processes
WHERE Settings['log_comment'] = {mark:String}
ORDER BY elapsed DESC
LIMIT 1

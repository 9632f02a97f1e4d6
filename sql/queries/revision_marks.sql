-- Purpose: read how far the published revisions of jobs reach: of some, and of those last published for a window from a given time on.
-- Parameters: job_ids ('' for findings about no single job); from_ns: start of the window, nanoseconds since the epoch.
-- Result: job_id String, revision UInt64 of the latest; next_step UInt64, last_time_ns Int64: as in revisions, of all of them.
SELECT
    job_id,
    max(r.revision) AS revision,
    max(r.next_step) AS next_step,
    toUnixTimestamp64Nano(max(r.last_time)) AS last_time_ns
FROM revisions AS r
GROUP BY job_id
HAVING job_id IN ({job_ids:Array(String)})
    OR argMax(r.window_start, r.revision) >= fromUnixTimestamp64Nano({from_ns:Int64});

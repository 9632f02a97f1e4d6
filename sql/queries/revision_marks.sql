-- Purpose: read how far the revisions of jobs reach that are published.
-- Parameters: job_ids ('' for findings about no single job).
-- Result: job_id String, revision UInt64 of the latest; next_step UInt64, last_time_ns Int64: as in revisions, of all of them.
SELECT
    job_id,
    max(r.revision) AS revision,
    max(r.next_step) AS next_step,
    toUnixTimestamp64Nano(max(r.last_time)) AS last_time_ns
FROM revisions AS r
WHERE job_id IN ({job_ids:Array(String)})
GROUP BY job_id;

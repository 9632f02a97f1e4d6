-- Purpose: list the jobs as they were known before a window: each one's newest revision published for an earlier window.
--   Jobs whose newest such revision withdrew them have no row.
-- Parameters: before_ns: start of the window; seen_since_ns: leave out jobs last seen before; nanoseconds since the epoch.
-- Result: revision UInt64 and the columns of jobs_log that make a JobRecord, times as Int64 nanoseconds; by job_id.
SELECT
    revision,
    job_id,
    tenant,
    toString(status) AS status,
    toUnixTimestamp64Nano(first_seen) AS first_seen_ns,
    toUnixTimestamp64Nano(last_seen) AS last_seen_ns,
    dp_size,
    pp_size,
    steps,
    step_s_median,
    memory
FROM jobs_log
WHERE (job_id, revision) IN
    (
        SELECT job_id, max(revision)
        FROM revisions
        WHERE window_start < fromUnixTimestamp64Nano({before_ns:Int64})
        GROUP BY job_id
    )
    AND last_seen >= fromUnixTimestamp64Nano({seen_since_ns:Int64})
ORDER BY job_id;

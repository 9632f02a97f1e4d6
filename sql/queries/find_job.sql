-- Purpose: find a job, for `prism-ch what-if`.
-- Parameters: job_id.
-- Result: tenant String; last_seen_ns Int64, nanoseconds since the epoch; no row for an unknown job.
SELECT tenant, toUnixTimestamp64Nano(last_seen) AS last_seen_ns
FROM jobs
WHERE job_id = {job_id:String};

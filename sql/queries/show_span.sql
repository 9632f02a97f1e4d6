-- Purpose: find out from when until when jobs were seen, for the report.
-- Parameters: job_id, empty for all.
-- Result: one row: jobs, count; first_ns, last_ns Int64, 0 without any.
SELECT
    count() AS jobs,
    toUnixTimestamp64Nano(min(j.first_seen)) AS first_ns,
    toUnixTimestamp64Nano(max(j.last_seen)) AS last_ns
FROM jobs AS j
WHERE {job_id:String} = '' OR j.job_id = {job_id:String};

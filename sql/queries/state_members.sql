-- Purpose: read the members of jobs as of given revisions.
-- Parameters: job_ids and revisions, arrays of equal length.
-- Result: job_id String, endpoint String, dp_group UInt32, pp_stage UInt32, first_seen_ns and last_seen_ns Int64.
SELECT
    job_id,
    endpoint,
    dp_group,
    pp_stage,
    toUnixTimestamp64Nano(first_seen) AS first_seen_ns,
    toUnixTimestamp64Nano(last_seen) AS last_seen_ns
FROM job_members_log
WHERE (job_id, revision) IN (SELECT arrayJoin(arrayZip({job_ids:Array(String)}, {revisions:Array(UInt64)})));

-- Purpose: read the groups of jobs as of given revisions.
-- Parameters: job_ids and revisions, arrays of equal length.
-- Result: job_id String, group_id UInt32, kind Int8 (the Enum's number), pp_stage UInt32, members Array(String); by group_id.
SELECT job_id, group_id, toInt8(kind) AS kind, pp_stage, members
FROM groups_log
WHERE (job_id, revision) IN (SELECT arrayJoin(arrayZip({job_ids:Array(String)}, {revisions:Array(UInt64)})))
ORDER BY job_id, group_id;

-- Purpose: list those among jobs that their latest revision has not withdrawn.
-- Parameters: job_ids, revisions: the jobs, and the latest revision of each.
-- Result: job_id String; in order.
SELECT job_id
FROM jobs_log
WHERE (job_id, revision) IN (SELECT arrayJoin(arrayZip({job_ids:Array(String)}, {revisions:Array(UInt64)})))
ORDER BY job_id;

-- Purpose: gives one job its data-parallel groups, and its pipelines where it has more than one stage.
-- Parameters: job_id, endpoints, pp_size; as of job_steps.
INSERT INTO groups_log (job_id, revision, group_id, kind, pp_stage, members)
WITH intDiv({endpoints:UInt32}, 8 * {pp_size:UInt32}) AS replicas
SELECT job_id, any(revision), dp_group, 'DP', any(pp_stage), arraySort(groupArray(endpoint))
FROM job_members_log
WHERE job_id = {job_id:String}
GROUP BY job_id, dp_group
UNION ALL
SELECT job_id, any(revision), 1000 + place, 'PP', 0, arrayMap(m -> m.2, arraySort(groupArray((pp_stage, endpoint))))
FROM
(
    SELECT *, gpu * replicas + (row_number() OVER (PARTITION BY dp_group ORDER BY endpoint) - 1) AS place
    FROM job_members_log
    WHERE job_id = {job_id:String}
)
GROUP BY job_id, place
HAVING count() > 1;

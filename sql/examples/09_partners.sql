-- Whom does a GPU exchange gradients with?
SELECT group_id, pp_stage, length(members) AS size, members
FROM groups
WHERE job_id = 'job-one' AND kind = 'DP' AND has(members, '10.1.0.3')

-- Data-parallel groups of the job, up to 200.
SELECT
    toString(group_id) AS id,
    concat('DP group ', toString(group_id)) AS title,
    concat('stage ', toString(pp_stage)) AS subtitle,
    length(members) AS mainstat,
    if(hasAny(members, blamed), '#c9283c', '#6b6f77') AS color,
    concat(members[1], if(length(members) > 1, concat(' to ', members[-1]), '')) AS detail__members
FROM groups
CROSS JOIN
(
    SELECT groupUniqArray(subject) AS blamed
    FROM diagnoses
    WHERE job_id = ${job:sqlstring} AND subject_type = 'endpoint' AND end_time >= $__fromTime AND start_time <= $__toTime
) AS b
WHERE job_id = ${job:sqlstring} AND kind = 'DP'
ORDER BY pp_stage, group_id
LIMIT 200

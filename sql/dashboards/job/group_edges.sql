-- Pipelines between those groups: how many pairs, and their bytes.
WITH member AS
(
    SELECT endpoint, dp_group
    FROM job_members
    WHERE job_id = ${job:sqlstring}
        AND dp_group IN (SELECT group_id FROM groups WHERE job_id = ${job:sqlstring} AND kind = 'DP' ORDER BY pp_stage, group_id LIMIT 200)
)
SELECT
    concat(toString(s.dp_group), '-', toString(d.dp_group)) AS id,
    toString(s.dp_group) AS source,
    toString(d.dp_group) AS target,
    count() AS mainstat,
    sum(p.bytes) AS secondarystat
FROM pairs AS p
INNER JOIN member AS s ON p.src_addr = s.endpoint
INNER JOIN member AS d ON p.dst_addr = d.endpoint
WHERE p.job_id = ${job:sqlstring} AND p.kind = 'PP' AND s.dp_group != d.dp_group
GROUP BY s.dp_group, d.dp_group
ORDER BY s.dp_group, d.dp_group
LIMIT 1000

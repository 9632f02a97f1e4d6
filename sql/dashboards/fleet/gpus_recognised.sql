-- Share of the topology's GPUs that are in a job which has not ended.
SELECT
    uniqExactIf(m.endpoint, j.status != 'ended') / greatest((SELECT uniqExact(endpoint) FROM topology), 1) AS "GPUs recognised"
FROM job_members AS m
INNER JOIN jobs AS j ON m.job_id = j.job_id
WHERE j.last_seen >= $__fromTime AND j.first_seen <= $__toTime

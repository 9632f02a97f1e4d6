-- The jobs that the server was in, the latest first.
SELECT
    m.job_id AS "Job",
    j.status::String AS "Status",
    j.tenant AS "Tenant",
    m.gpus AS "GPUs here",
    j.endpoints AS "GPUs in all",
    m.first_time AS "From",
    m.last_time AS "Until"
FROM
(
    SELECT job_id, count() AS gpus, min(first_seen) AS first_time, max(last_seen) AS last_time
    FROM job_members
    WHERE server IN (${host:sqlstring})
    GROUP BY job_id
) AS m
INNER JOIN jobs AS j ON m.job_id = j.job_id
WHERE m.last_time >= $__fromTime AND m.first_time <= $__toTime
ORDER BY "Until" DESC, "Job"
LIMIT 100

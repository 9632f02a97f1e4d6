-- How much longer steps took than what is usual for their job, over time; of the 40 jobs that were slowest.
SELECT point.1 AS time, job_id AS job, point.2 AS slower
FROM
(
    SELECT job_id, groupArray((at, slower)) AS points
    FROM
    (
        SELECT $__timeInterval(s.end_time) AS at, s.job_id AS job_id, quantileExact(0.5)(s.duration_s) / any(j.step_s_median) - 1 AS slower
        FROM steps AS s
        INNER JOIN (SELECT job_id, step_s_median FROM jobs WHERE step_s_median > 0) AS j ON s.job_id = j.job_id
        WHERE $__timeFilter(s.end_time) AND $__conditionalAll(s.tenant IN (${tenant:sqlstring}), $tenant)
        GROUP BY at, job_id
    )
    GROUP BY job_id
    ORDER BY max(slower) DESC, job_id
    LIMIT 40
)
ARRAY JOIN points AS point
ORDER BY time, job

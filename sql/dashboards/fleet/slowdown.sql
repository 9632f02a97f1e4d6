-- How much longer steps took than what is usual for their job, over time; of the 40 jobs that were slowest.
WITH slowed AS
(
    SELECT $__timeInterval(s.end_time) AS time, s.job_id AS job_id, quantileExact(0.5)(s.duration_s) / any(j.step_s_median) - 1 AS slower
    FROM steps AS s
    INNER JOIN jobs AS j ON s.job_id = j.job_id
    WHERE $__timeFilter(s.end_time) AND j.step_s_median > 0 AND $__conditionalAll(s.tenant IN (${tenant:sqlstring}), $tenant)
    GROUP BY time, job_id
)
SELECT time, job_id AS job, slower
FROM slowed
WHERE job_id IN (SELECT job_id FROM slowed GROUP BY job_id ORDER BY max(slower) DESC, job_id LIMIT 40)
ORDER BY time, job

-- How much longer steps took than what is usual for their job, over time; of the 20 jobs with most GPUs.
SELECT $__timeInterval(s.end_time) AS time, s.job_id AS job, quantileExact(0.5)(s.duration_s) / any(j.step_s_median) - 1 AS slower
FROM steps AS s
INNER JOIN
(
    SELECT job_id, step_s_median
    FROM jobs
    WHERE tenant = ${tenant:sqlstring} AND step_s_median > 0 AND last_seen >= $__fromTime AND first_seen <= $__toTime
    ORDER BY endpoints DESC, job_id
    LIMIT 20
) AS j ON s.job_id = j.job_id
WHERE s.tenant = ${tenant:sqlstring} AND $__timeFilter(s.end_time)
GROUP BY time, job
ORDER BY time, job

-- Step times against what is usual for the job, over time.
SELECT $__timeInterval(s.end_time) AS time, s.job_id AS job, quantileExact(0.5)(s.duration_s) / any(j.step_s_median) - 1 AS slower
FROM steps AS s
INNER JOIN jobs AS j ON s.job_id = j.job_id
WHERE s.tenant = ${tenant:sqlstring} AND $__timeFilter(s.end_time) AND j.step_s_median > 0
GROUP BY time, job
ORDER BY time, job

-- Purpose: see by how much each job's latest steps take longer than its steps usually do.
-- Range: long enough for five of the longest steps.
-- Result: tenant, job String; slower Float64: share by which the median of the job's last five steps exceeds its median.
SELECT
    any(j.tenant) AS tenant,
    s.job_id AS job,
    quantileExact(0.5)(s.duration_s) / any(j.step_s_median) - 1 AS slower
FROM
(
    SELECT job_id, duration_s
    FROM steps
    WHERE $__timeFilter(end_time)
    ORDER BY job_id, step DESC
    LIMIT 5 BY job_id
) AS s
INNER JOIN (SELECT job_id, tenant, step_s_median FROM jobs WHERE status != 'ended' AND step_s_median > 0) AS j
    ON s.job_id = j.job_id
GROUP BY s.job_id
HAVING count() = 5
ORDER BY job

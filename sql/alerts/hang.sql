-- Purpose: see which jobs hang.
-- Range: how long a job that shows no more traffic is still asked about.
-- Result: tenant, job String; hanging UInt64: its findings of a hang that still last, count.
SELECT j.tenant AS tenant, j.job_id AS job, h.hanging AS hanging
FROM jobs AS j
LEFT JOIN
(
    SELECT job_id, countIf(status = 'open') AS hanging
    FROM diagnoses
    WHERE kind = 'hang'
    GROUP BY job_id
) AS h ON j.job_id = h.job_id
WHERE $__timeFilter(j.last_seen)
ORDER BY job

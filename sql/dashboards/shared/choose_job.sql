-- The jobs in the span and the chosen one, those with most GPUs first.
SELECT job_id, concat(job_id, ' (', tenant, ', ', toString(endpoints), ' GPUs)') AS text
FROM jobs
WHERE job_id IN (${job:sqlstring}) OR (last_seen >= $__fromTime AND first_seen <= $__toTime)
ORDER BY job_id IN (${job:sqlstring}) DESC, status = 'ended', endpoints DESC, job_id
LIMIT 500

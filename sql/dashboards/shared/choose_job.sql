-- The jobs in the span, those with most GPUs first.
SELECT job_id, concat(job_id, ' (', tenant, ', ', toString(endpoints), ' GPUs)') AS text
FROM jobs
WHERE last_seen >= $__fromTime AND first_seen <= $__toTime
ORDER BY status = 'ended', endpoints DESC, job_id
LIMIT 500

-- What did each cause cost, in GPU-hours?
SELECT tenant, job_id, cause, findings, round(gpu_hours_lost, 1) AS gpu_hours_lost
FROM losses
ORDER BY losses.gpu_hours_lost DESC, job_id, cause
LIMIT 5

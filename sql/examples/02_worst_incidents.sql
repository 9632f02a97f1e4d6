-- What is wrong, and what does it cost?
SELECT severity, status, kind, subject, round(confidence, 2) AS confidence, jobs, round(lost_gpu_h, 2) AS lost_gpu_h, action
FROM incidents
WHERE severity > 'info'
ORDER BY status, severity DESC, incidents.lost_gpu_h DESC
LIMIT 5

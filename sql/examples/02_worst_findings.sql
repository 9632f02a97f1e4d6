-- What slows training most?
SELECT severity, kind, subject, job_id, first_step, last_step, round(slowdown, 2) AS slowdown, summary
FROM diagnoses
WHERE severity > 'info'
ORDER BY severity DESC, slowdown DESC, start_time
LIMIT 5

-- Which steps of the last two hours were slowest, and what is known of why?
SELECT job_id, step, start_time, duration_s, severity, kinds
FROM diagnosed_steps
WHERE start_time >= (SELECT max(last_seen) FROM jobs) - INTERVAL 2 HOUR
ORDER BY duration_s DESC, job_id, step
LIMIT 5

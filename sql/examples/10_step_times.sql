-- How did step times change from hour to hour?
SELECT
    toStartOfHour(start_time) AS hour,
    job_id,
    count() AS steps,
    round(quantileExact(0.5)(duration_s), 2) AS p50_s,
    round(quantileExact(0.95)(duration_s), 2) AS p95_s
FROM steps
GROUP BY hour, job_id
ORDER BY hour, job_id
LIMIT 4

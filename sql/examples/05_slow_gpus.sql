-- Which GPUs computed longer than the others of their job in the last hour?
WITH
    (SELECT max(last_seen) FROM jobs WHERE job_id = 'job-one') AS now,
    (SELECT min(step) FROM steps WHERE job_id = 'job-one' AND start_time >= now - INTERVAL 1 HOUR) AS from_step,
    longest AS
    (
        SELECT endpoint, max(compute_s) AS compute_s_max, avg(compute_s) AS compute_s_mean
        FROM gpu_steps
        WHERE job_id = 'job-one' AND step >= from_step
        GROUP BY endpoint
    )
SELECT endpoint, server, gpu, round(compute_s_mean, 2) AS compute_s_mean, round(compute_s_max, 2) AS compute_s_max
FROM longest
INNER JOIN (SELECT endpoint, server, gpu FROM job_members WHERE job_id = 'job-one') AS m USING (endpoint)
ORDER BY longest.compute_s_mean DESC, endpoint
LIMIT 3

-- Which jobs are there, whose, how large and how fast?
SELECT job_id, tenant, status, endpoints AS gpus, dp_size, pp_size, steps, step_s_median
FROM jobs
ORDER BY gpus DESC, job_id

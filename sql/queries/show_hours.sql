-- Purpose: say where the GPU-hours of jobs went, by job and cause, for the report.
-- Parameters: job_id, empty for all; from_time, to_time: the span, UTC, to the second.
-- Result: job_id; cause String, empty for time that was not lost; gpu_h, lost_gpu_h, GPU-hours; the dearest job first.
SELECT job_id, cause, sum(gpu_s) / 3600 AS gpu_h, sum(lost_gpu_s) / 3600 AS lost_gpu_h
FROM gpu_time(from_time = {from_time:DateTime('UTC')}, to_time = {to_time:DateTime('UTC')})
WHERE {job_id:String} = '' OR job_id = {job_id:String}
GROUP BY job_id, cause
ORDER BY sum(lost_gpu_h) OVER (PARTITION BY job_id) DESC, job_id, lost_gpu_h DESC, cause;

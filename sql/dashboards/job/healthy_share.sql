-- Share of the job's GPU time in the span that was not lost, and GPU-hours that were.
SELECT if(sum(gpu_s) > 0, 1 - sum(lost_gpu_s) / sum(gpu_s), NULL) AS "GPU time healthy", sum(lost_gpu_s) / 3600 AS "GPU-hours lost"
FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
WHERE job_id = ${job:sqlstring}

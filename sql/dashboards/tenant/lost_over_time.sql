-- GPU-hours lost over time, by cause.
SELECT $__timeInterval(end_time) AS time, cause, sum(lost_gpu_s) / 3600 AS lost
FROM gpu_time
WHERE tenant = ${tenant:sqlstring} AND $__timeFilter(end_time) AND cause != ''
GROUP BY time, cause
ORDER BY time, cause

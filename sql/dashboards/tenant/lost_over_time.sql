-- GPU-hours lost over time, by cause.
SELECT $__timeInterval(end_time) AS time, cause, sum(lost_gpu_s) / 3600 AS lost
FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
WHERE tenant = ${tenant:sqlstring} AND cause != ''
GROUP BY time, cause
ORDER BY time, cause

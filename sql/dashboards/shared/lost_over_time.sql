-- GPU-hours lost over time, by what was to blame: GPUs, the network, jobs that stood still, and what nothing explains.
SELECT
    $__timeInterval(end_time) AS time,
    sumIf(lost_gpu_s, cause = 'slow_gpu') / 3600 AS "GPUs",
    sumIf(lost_gpu_s, cause IN ('slow_nic', 'slow_link', 'slow_switch', 'slow_group', 'congestion')) / 3600 AS "Network",
    sumIf(lost_gpu_s, cause IN ('hang', 'stall', 'restart')) / 3600 AS "Standing still",
    sum(lost_gpu_s) / 3600 - "GPUs" - "Network" - "Standing still" AS "Other"
FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
WHERE cause != '' AND $__whose
GROUP BY time
ORDER BY time

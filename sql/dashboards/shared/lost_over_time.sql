-- GPU-hours lost over time, by what was to blame: GPUs, the network, jobs that stood still, and what nothing explains.
WITH
    ['slow_nic', 'slow_link', 'slow_switch', 'slow_group', 'congestion'] AS of_network,
    ['hang', 'stall', 'restart'] AS stops
SELECT
    $__timeInterval(end_time) AS time,
    sumIf(lost_gpu_s, cause = 'slow_gpu') / 3600 AS "GPUs",
    sumIf(lost_gpu_s, has(of_network, cause)) / 3600 AS "Network",
    sumIf(lost_gpu_s, has(stops, cause)) / 3600 AS "Standing still",
    sumIf(lost_gpu_s, cause != 'slow_gpu' AND NOT has(of_network, cause) AND NOT has(stops, cause)) / 3600 AS "Other"
FROM gpu_time_by_cause(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
WHERE cause != '' AND $__whose
GROUP BY time
ORDER BY time

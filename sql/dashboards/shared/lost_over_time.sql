-- GPU-hours lost over time, by what was to blame: GPUs, the network, jobs that stood still, and what nothing explains.
WITH
    greatest($__interval_s, 1)::Int64 AS cell_s,
    ['slow_nic', 'slow_link', 'slow_switch', 'slow_group', 'congestion'] AS of_network,
    ['hang', 'stall', 'restart'] AS stops
SELECT
    toDateTime(at * cell_s) AS time,
    sumIf(lost_gpu_s, cause = 'slow_gpu') / 3600 AS "GPUs",
    sumIf(lost_gpu_s, has(of_network, cause)) / 3600 AS "Network",
    sumIf(lost_gpu_s, has(stops, cause)) / 3600 AS "Standing still",
    sumIf(lost_gpu_s, cause != 'slow_gpu' AND NOT has(of_network, cause) AND NOT has(stops, cause)) / 3600 AS "Other"
FROM
(
    SELECT
        cause,
        toUnixTimestamp(start_time)::Int64 AS from_s,
        greatest(toUnixTimestamp(end_time)::Int64, from_s + 1) AS to_s,
        arrayJoin(range(intDiv(from_s, cell_s), intDiv(to_s - 1, cell_s) + 1)) AS at,
        t.lost_gpu_s * (least(to_s, (at + 1) * cell_s) - greatest(from_s, at * cell_s)) / (to_s - from_s) AS lost_gpu_s
    FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC')) AS t
    WHERE cause != '' AND $__whose
)
GROUP BY time
ORDER BY time

-- The state in five numbers: jobs now, incidents that are open, and what of the GPU time of the span was lost.
WITH
    (
        SELECT (countIf(status = 'running'), countIf(status = 'stalled'))
        FROM jobs
        WHERE last_seen >= $__fromTime AND first_seen <= $__toTime AND $__whose
    ) AS now_there,
    (
        SELECT countIf(status = 'open' AND severity != 'info')
        FROM incidents
        WHERE end_time >= $__fromTime AND start_time <= $__toTime AND $__whose_incidents
    ) AS open_incidents
SELECT
    now_there.1 AS "Jobs running",
    now_there.2 AS "Jobs stopped",
    open_incidents AS "Open incidents",
    sum(lost_gpu_s) / 3600 AS "GPU-hours lost",
    if(sum(gpu_s) > 0, 1 - sum(lost_gpu_s) / sum(gpu_s), NULL) AS "GPU time healthy"
FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
WHERE $__whose

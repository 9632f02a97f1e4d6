-- What the tenant has and what it lost in the span.
WITH (SELECT (countIf(status = 'running'), sumIf(endpoints, status != 'ended')) FROM jobs WHERE tenant = ${tenant:sqlstring}) AS has
SELECT
    has.1 AS "Running jobs",
    has.2 AS "GPUs in jobs",
    sum(gpu_s) / 3600 AS "GPU-hours",
    sum(lost_gpu_s) / 3600 AS "GPU-hours lost",
    if(sum(gpu_s) > 0, 1 - sum(lost_gpu_s) / sum(gpu_s), NULL) AS "Healthy"
FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
WHERE tenant = ${tenant:sqlstring}

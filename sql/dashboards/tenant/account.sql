-- What the tenant has and what it lost in the span.
SELECT
    (SELECT countIf(status = 'running') FROM jobs WHERE tenant = ${tenant:sqlstring}) AS "Running jobs",
    (SELECT sumIf(endpoints, status != 'ended') FROM jobs WHERE tenant = ${tenant:sqlstring}) AS "GPUs in jobs",
    sum(gpu_s) / 3600 AS "GPU-hours",
    sum(lost_gpu_s) / 3600 AS "GPU-hours lost",
    if(sum(gpu_s) > 0, 1 - sum(lost_gpu_s) / sum(gpu_s), NULL) AS "Healthy"
FROM gpu_time
WHERE tenant = ${tenant:sqlstring} AND $__timeFilter(end_time)

-- Share of the GPU time in the span that was not lost.
SELECT if(sum(gpu_s) > 0, 1 - sum(lost_gpu_s) / sum(gpu_s), NULL) AS "Healthy"
FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
WHERE $__conditionalAll(tenant IN (${tenant:sqlstring}), $tenant)

-- The healthy share of GPU time over time, by tenant.
SELECT $__timeInterval(end_time) AS time, tenant, 1 - sum(lost_gpu_s) / sum(gpu_s) AS healthy
FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
WHERE $__conditionalAll(tenant IN (${tenant:sqlstring}), $tenant)
GROUP BY time, tenant
HAVING sum(gpu_s) > 0
ORDER BY time, tenant

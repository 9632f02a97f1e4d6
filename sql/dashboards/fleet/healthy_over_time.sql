-- The healthy share of GPU time over time, by tenant.
SELECT $__timeInterval(end_time) AS time, tenant, 1 - sum(lost_gpu_s) / sum(gpu_s) AS healthy
FROM gpu_time
WHERE $__timeFilter(end_time) AND $__conditionalAll(tenant IN (${tenant:sqlstring}), $tenant)
GROUP BY time, tenant
HAVING sum(gpu_s) > 0
ORDER BY time, tenant

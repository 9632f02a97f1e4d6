-- The tenants that have jobs in the span, and the chosen one.
SELECT DISTINCT tenant
FROM jobs
WHERE tenant != '' AND (tenant IN (${tenant:sqlstring}) OR (last_seen >= $__fromTime AND first_seen <= $__toTime))
ORDER BY tenant

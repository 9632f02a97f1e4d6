-- Purpose: name the tenants of the topology.
-- Parameters: none.
-- Result: tenant, in order.
SELECT DISTINCT tenant
FROM topology
WHERE tenant != ''
ORDER BY tenant

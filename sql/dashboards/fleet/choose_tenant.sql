-- The tenants that have jobs in the span.
SELECT DISTINCT tenant FROM jobs WHERE last_seen >= $__fromTime AND first_seen <= $__toTime AND tenant != '' ORDER BY tenant

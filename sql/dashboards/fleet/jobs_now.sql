-- Jobs and GPUs in the span, by what they do.
SELECT
    countIf(status = 'running') AS "Running",
    countIf(status = 'stalled') AS "Stalled",
    sumIf(endpoints, status != 'ended') AS "GPUs in jobs"
FROM jobs
WHERE last_seen >= $__fromTime AND first_seen <= $__toTime AND $__conditionalAll(tenant IN (${tenant:sqlstring}), $tenant)

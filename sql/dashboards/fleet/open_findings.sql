-- Findings in the span that are still open.
SELECT
    countIf(severity = 'critical') AS "Critical",
    countIf(severity = 'warning') AS "Warning",
    countIf(severity = 'info') AS "Info"
FROM diagnoses
WHERE status = 'open' AND end_time >= $__fromTime AND start_time <= $__toTime
    AND $__conditionalAll((tenant = '' OR tenant IN (${tenant:sqlstring})), $tenant)

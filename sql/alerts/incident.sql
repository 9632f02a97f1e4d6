-- Purpose: see the incidents of warning or worse, one alert each, and whether they still last.
-- Range: how long an incident that is not renewed is still told.
-- Result: tenant, job String, 'several' where it concerns more than one; incident, kind, subject, severity String; lasting UInt8:
--   1 while it lasts, then 0 for 10 minutes.
SELECT
    if(length(i.tenants) > 1, 'several', i.tenants[1]) AS tenant,
    if(length(i.jobs) > 1, 'several', i.jobs[1]) AS job,
    i.incident_id AS incident,
    toString(i.kind) AS kind,
    i.subject AS subject,
    toString(i.severity) AS severity,
    toUInt8(i.status = 'open') AS lasting
FROM incidents AS i
WHERE i.severity != 'info'
    AND $__timeFilter(i.end_time)
    AND (i.status = 'open' OR i.end_time >= $__toTime - INTERVAL 10 MINUTE)
ORDER BY incident

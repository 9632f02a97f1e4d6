-- Purpose: see the incidents of warning or worse, one alert each, and whether they still last.
-- Range: how long an incident that is not renewed is still told.
-- Result: tenant, job String, 'several' where it concerns more than one; incident, kind, subject, severity String; place
--   String: the subject, or the GPU that it is; confidence String: high from 0.9, medium from 0.5; value UInt8: 1 while it lasts,
--   then 0 for 10 minutes. Texts, which change while it lasts: sentence, action, lost_gpu_h String; from_ms, to_ms String: the
--   incident with its length before and after it, milliseconds since 1970.
WITH
    toUnixTimestamp64Milli(i.start_time) AS start_ms,
    toUnixTimestamp64Milli(i.end_time) AS end_ms,
    greatest(end_ms - start_ms, 60000) AS length_ms
SELECT
    if(length(i.tenants) > 1, 'several', i.tenants[1]) AS tenant,
    if(length(i.jobs) > 1, 'several', i.jobs[1]) AS job,
    i.incident_id AS incident,
    toString(i.kind) AS kind,
    i.subject AS subject,
    if(empty(m.server), i.subject, concat(m.server, ' GPU ', toString(m.gpu))) AS place,
    toString(i.severity) AS severity,
    multiIf(i.confidence >= 0.9, 'high', i.confidence >= 0.5, 'medium', 'low') AS confidence,
    toUInt8(i.status = 'open') AS value,
    i.summary AS sentence,
    i.action AS action,
    toString(round(i.lost_gpu_h, if(i.lost_gpu_h < 10, 2, 0))) AS lost_gpu_h,
    toString(start_ms - length_ms) AS from_ms,
    toString(end_ms + length_ms) AS to_ms
FROM incidents AS i
LEFT JOIN
(
    SELECT endpoint, argMax(server, last_seen) AS server, argMax(gpu, last_seen) AS gpu
    FROM job_members
    WHERE endpoint IN (SELECT subject FROM incidents WHERE severity != 'info' AND $__timeFilter(end_time))
    GROUP BY endpoint
) AS m ON m.endpoint = i.subject
WHERE i.severity != 'info'
    AND $__timeFilter(i.end_time)
    AND (i.status = 'open' OR i.end_time >= $__toTime - INTERVAL 10 MINUTE)
ORDER BY incident

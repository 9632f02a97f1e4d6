-- Purpose: see which GPUs, servers, switches and links are to blame again and again, over all jobs they meet.
-- Range: how far back blame is added up; only what was to blame in the last hour of it counts.
-- Result: tenant, job, kind, subject String, 'several' where it met more than one; place String: the subject, or the GPU that it
--   is; value Float64: time of its incidents of warning or worse, minutes; 0 where there was only one, which has an alert of its
--   own. Texts, which change while it lasts: host String: the server that it is or sits in, empty of switches and links; incident
--   String: its last one, and what to do about that: action; incident_from_ms, incident_to_ms String: that incident with its length
--   before and after it; from_ms, to_ms String: the range; milliseconds since 1970.
WITH
    argMax(
        (i.incident_id, i.action, toUnixTimestamp64Milli(i.start_time), toUnixTimestamp64Milli(i.end_time)),
        (i.end_time, i.incident_id)
    ) AS last,
    greatest(last.4 - last.3, 60000) AS length_ms
SELECT
    if(uniqExactArray(i.tenants) > 1, 'several', any(i.tenants)[1]) AS tenant,
    if(uniqExactArray(i.jobs) > 1, 'several', any(i.jobs)[1]) AS job,
    toString(i.kind) AS kind,
    i.subject AS subject,
    if(empty(any(m.server)), i.subject, concat(any(m.server), ' GPU ', toString(any(m.gpu)))) AS place,
    if(any(i.subject_type) = 'server', i.subject, any(m.server)) AS host,
    if(
        count() > 1 AND max(i.end_time) >= $__toTime - INTERVAL 1 HOUR,
        sum(dateDiff('second', greatest(toDateTime(i.start_time), $__fromTime), toDateTime(i.end_time))) / 60,
        0
    ) AS value,
    last.1 AS incident,
    last.2 AS action,
    toString(last.3 - length_ms) AS incident_from_ms,
    toString(last.4 + length_ms) AS incident_to_ms,
    toString(toUnixTimestamp($__fromTime)) || '000' AS from_ms,
    toString(toUnixTimestamp($__toTime)) || '000' AS to_ms
FROM incidents AS i
LEFT JOIN
(
    SELECT endpoint, argMax(server, last_seen) AS server, argMax(gpu, last_seen) AS gpu
    FROM job_members
    WHERE endpoint IN (SELECT subject FROM incidents WHERE severity != 'info' AND $__timeFilter(end_time))
    GROUP BY endpoint
) AS m ON m.endpoint = i.subject
WHERE i.severity != 'info'
    AND i.subject_type IN ('endpoint', 'server', 'switch', 'link')
    AND $__timeFilter(i.end_time)
GROUP BY i.kind, i.subject
ORDER BY kind, subject

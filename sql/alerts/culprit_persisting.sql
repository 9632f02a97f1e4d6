-- Purpose: see which GPUs, servers, switches and links are blamed for long or again and again, over all jobs they meet.
-- Range: how far back blame is added up; only what was blamed in the last hour of it counts.
-- Result: tenant, job, kind, subject String, 'several' where it met more than one; blamed_minutes Float64: time under findings
--   of warning or worse, minutes.
SELECT
    if(uniqExact(d.tenant) = 1, any(d.tenant), 'several') AS tenant,
    if(uniqExact(d.job_id) = 1, any(d.job_id), 'several') AS job,
    toString(d.kind) AS kind,
    d.subject AS subject,
    if(
        max(d.end_time) >= $__toTime - INTERVAL 1 HOUR,
        sum(dateDiff('second', greatest(toDateTime(d.start_time), $__fromTime), toDateTime(d.end_time))) / 60,
        0
    ) AS blamed_minutes
FROM diagnoses AS d
WHERE d.severity IN ('warning', 'critical')
    AND d.subject_type IN ('endpoint', 'server', 'switch', 'link')
    AND $__timeFilter(d.end_time)
GROUP BY d.kind, d.subject
ORDER BY kind, subject

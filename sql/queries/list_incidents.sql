-- Purpose: list the incidents for `prism-ch incidents`.
-- Parameters: none.
-- Result: severity, status, kind, subject, may_also_be; confidence, 0 to 1; lost_gpu_h; slowdown, 0 to 1; jobs; since, until, to the
--   second; summary, action, incident_id; open ones first, then the worst.
SELECT
    i.severity AS severity,
    i.status AS status,
    i.kind AS kind,
    i.subject AS subject,
    i.may_also_be AS may_also_be,
    round(i.confidence, 2) AS confidence,
    round(i.lost_gpu_h, 3) AS lost_gpu_h,
    round(i.slowdown, 3) AS slowdown,
    i.jobs AS jobs,
    toDateTime(i.start_time, 'UTC') AS since,
    toDateTime(i.end_time, 'UTC') AS until,
    i.summary AS summary,
    i.action AS action,
    i.incident_id AS incident_id
FROM incidents AS i
ORDER BY i.status, i.severity DESC, i.lost_gpu_h DESC, i.start_time DESC, i.incident_id;

-- What is wrong in the span, one row an incident, open ones first, then the worst. A summary leads to the finding that names
-- the cause.
SELECT
    c.cause AS "Finding",
    i.severity::String AS "Severity",
    i.status::String AS "Status",
    i.summary AS "Summary",
    i.action AS "What to do",
    i.confidence AS "Sure",
    i.lost_gpu_h AS "GPU-hours lost",
    i.slowdown AS "Slowdown",
    i.start_time AS "Since",
    i.end_time AS "Until",
    i.kind::String AS "Kind",
    i.subject AS "Subject",
    arrayStringConcat(i.may_also_be, ', ') AS "May also be",
    arrayStringConcat(i.jobs, ', ') AS "Jobs",
    arrayStringConcat(i.tenants, ', ') AS "Tenants"
FROM incidents AS i
LEFT JOIN
(
    SELECT incident_id, argMax(diagnosis_id, (severity, slowdown, diagnosis_id)) AS cause
    FROM diagnoses
    WHERE incident_id != '' AND start_time <= $__toTime
    GROUP BY incident_id
) AS c ON i.incident_id = c.incident_id
WHERE i.end_time >= $__fromTime AND i.start_time <= $__toTime AND $__whose_incidents
ORDER BY i.status, i.severity DESC, i.lost_gpu_h DESC, i.start_time DESC, i.incident_id
LIMIT 200

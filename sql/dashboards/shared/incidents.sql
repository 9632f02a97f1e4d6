-- What is wrong in the span, one row an incident, open ones first, then the worst. A sentence leads to its incident.
SELECT
    i.incident_id AS "Incident",
    i.summary AS "What is wrong",
    i.action AS "What to do",
    i.severity::String AS "Severity",
    i.status::String AS "Status",
    i.confidence AS "Sure",
    i.lost_gpu_h AS "GPU-hours lost",
    i.start_time AS "Since",
    (toUnixTimestamp64Milli(i.end_time) - toUnixTimestamp64Milli(i.start_time)) / 1000 AS "Lasted"
FROM incidents AS i
WHERE i.end_time >= $__fromTime AND i.start_time <= $__toTime AND $__whose_incidents
ORDER BY i.status, i.severity DESC, i.lost_gpu_h DESC, i.start_time DESC, i.incident_id
LIMIT 200

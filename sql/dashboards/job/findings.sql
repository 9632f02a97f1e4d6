-- What the incidents of the job in the span rest on, and what is of none: findings, open ones first, then the worst.
SELECT
    incident_id AS "Incident",
    severity::String AS "Severity",
    status::String AS "Status",
    kind::String AS "Kind",
    subject AS "Subject",
    start_time AS "Since",
    if(slowdown < 1, slowdown / (1 - slowdown), NULL) AS "Slower",
    summary AS "What was found"
FROM diagnoses
WHERE job_id = ${job:sqlstring} AND end_time >= $__fromTime AND start_time <= $__toTime
ORDER BY status, severity DESC, slowdown DESC, start_time DESC, diagnosis_id
LIMIT 100

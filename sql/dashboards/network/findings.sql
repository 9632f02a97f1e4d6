-- Findings about the network in the span, open ones first.
SELECT
    diagnosis_id AS "Finding",
    severity::String AS "Severity",
    status::String AS "Status",
    kind::String AS "Kind",
    subject AS "Subject",
    job_id AS "Job",
    start_time AS "Since",
    end_time AS "Until",
    summary AS "Summary"
FROM diagnoses
WHERE kind IN ('slow_switch', 'slow_nic', 'slow_link', 'congestion', 'slow_group') AND end_time >= $__fromTime AND start_time <= $__toTime
ORDER BY status, severity DESC, start_time DESC
LIMIT 100

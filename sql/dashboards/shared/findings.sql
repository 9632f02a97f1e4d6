-- Findings in the span, open ones first, then the worst.
SELECT
    diagnosis_id AS "Finding",
    severity::String AS "Severity",
    status::String AS "Status",
    kind::String AS "Kind",
    subject AS "Subject",
    job_id AS "Job",
    tenant AS "Tenant",
    start_time AS "Since",
    end_time AS "Until",
    slowdown AS "Slowdown",
    summary AS "Summary"
FROM diagnoses
WHERE end_time >= $__fromTime AND start_time <= $__toTime AND $__whose_or_nobodys
ORDER BY status, severity DESC, slowdown DESC, start_time DESC
LIMIT 200

-- What the incidents of the job in the span rest on, and what is of none: findings, open ones first, then the worst.
SELECT
    diagnosis_id AS "Finding",
    severity::String AS "Severity",
    status::String AS "Status",
    kind::String AS "Kind",
    subject AS "Subject",
    first_step AS "From step",
    last_step AS "To step",
    start_time AS "Since",
    end_time AS "Until",
    slowdown AS "Slowdown",
    summary AS "Summary"
FROM diagnoses
WHERE job_id = ${job:sqlstring} AND end_time >= $__fromTime AND start_time <= $__toTime
ORDER BY status, severity DESC, slowdown DESC, start_time DESC, diagnosis_id
LIMIT 100

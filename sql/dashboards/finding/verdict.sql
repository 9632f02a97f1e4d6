-- What was found.
SELECT
    summary AS "Summary", severity::String AS "Severity", status::String AS "Status", kind::String AS "Kind",
    subject AS "Subject", job_id AS "Job", tenant AS "Tenant", start_time AS "Since", end_time AS "Until"
FROM diagnoses
WHERE diagnosis_id = ${finding:sqlstring}

-- The findings that the incident rests on, those of its job that lost most first.
SELECT
    severity::String AS "Severity",
    kind::String AS "Kind",
    subject AS "Subject",
    job_id AS "Job",
    observed AS "Measured",
    expected AS "Expected",
    score AS "Deviations",
    summary AS "What was found"
FROM diagnoses
WHERE incident_id IN (${incident:sqlstring}) AND incident_id != ''
ORDER BY severity DESC, slowdown DESC, subject_type = 'job', start_time, diagnosis_id
LIMIT 50

-- The incident that the finding is part of: what is wrong, what it costs over all jobs, and what to do. A finding that costs
-- nothing is of none.
SELECT
    summary AS "Summary",
    action AS "What to do",
    severity::String AS "Severity",
    kind::String AS "Kind",
    subject AS "Subject",
    confidence AS "Sure",
    arrayStringConcat(may_also_be, ', ') AS "May also be",
    arrayStringConcat(jobs, ', ') AS "Jobs",
    lost_gpu_h AS "GPU-hours lost",
    slowdown AS "Slowdown"
FROM incidents
WHERE incident_id != '' AND incident_id IN (SELECT incident_id FROM diagnoses WHERE diagnosis_id = ${finding:sqlstring})

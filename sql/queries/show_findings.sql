-- Purpose: list the findings that an incident rests on, for the report and the page at /.
-- Parameters: incident_id; job_id, empty for all.
-- Result: diagnosis_id, job_id, kind, subject, severity, status String; first_step, last_step UInt64; start_ns, end_ns Int64; observed,
--   expected, score, slowdown, confidence Float64; summary String; observed_s, expected_s Array(Float64), the measured seconds of each
--   step where the evidence has them; the one that names the cause first.
SELECT
    diagnosis_id,
    job_id,
    kind::String AS kind,
    subject,
    severity::String AS severity,
    status::String AS status,
    first_step,
    last_step,
    toUnixTimestamp64Nano(start_time) AS start_ns,
    toUnixTimestamp64Nano(end_time) AS end_ns,
    observed,
    expected,
    score,
    slowdown,
    confidence,
    summary,
    JSONExtract(evidence, 'observed_s', 'Array(Float64)') AS observed_s,
    JSONExtract(evidence, 'expected_s', 'Array(Float64)') AS expected_s
FROM diagnoses AS d
WHERE d.incident_id = {incident_id:String} AND d.incident_id != '' AND ({job_id:String} = '' OR d.job_id = {job_id:String})
ORDER BY d.kind = 'slow_step', d.severity DESC, slowdown DESC, diagnosis_id
LIMIT 50;

-- Other findings at the time, those of the same incident first, then those about the same job.
WITH
    (SELECT (any(job_id), any(start_time), any(end_time), any(incident_id)) FROM diagnoses WHERE diagnosis_id = ${finding:sqlstring}) AS f
SELECT
    diagnosis_id AS "Finding",
    multiIf(incident_id = '', 'none', incident_id = f.4, 'the same', 'other') AS "Incident",
    severity::String AS "Severity",
    kind::String AS "Kind",
    subject AS "Subject",
    job_id AS "Job",
    start_time AS "Since",
    end_time AS "Until",
    summary AS "Summary"
FROM diagnoses
WHERE diagnosis_id != ${finding:sqlstring} AND end_time >= f.2 AND start_time <= f.3
ORDER BY "Incident" = 'the same' DESC, job_id = f.1 DESC, severity DESC, start_time, diagnosis_id
LIMIT 50

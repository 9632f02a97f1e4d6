-- Purpose: list the incidents for the summary that `prism-ch run` prints.
-- Parameters: none.
-- Result: incident_id, kind, subject_type, subject String; may_also_be Array(String); confidence Float64; severity String; is_open UInt8;
--   start_ns, end_ns Int64; first_step, last_step Nullable(UInt64), NULL unless its findings are on the steps of one job;
--   jobs Array(String); lost_gpu_h, slowdown Float64; summary, action String; open ones first, then the worst.
SELECT
    i.incident_id AS incident_id,
    i.kind::String AS kind,
    i.subject_type::String AS subject_type,
    i.subject AS subject,
    i.may_also_be AS may_also_be,
    i.confidence AS confidence,
    i.severity::String AS severity,
    i.status = 'open' AS is_open,
    toUnixTimestamp64Nano(i.start_time) AS start_ns,
    toUnixTimestamp64Nano(i.end_time) AS end_ns,
    if(f.on_jobs = 1, f.first_step, NULL) AS first_step,
    if(f.on_jobs = 1, f.last_step, NULL) AS last_step,
    i.jobs AS jobs,
    i.lost_gpu_h AS lost_gpu_h,
    i.slowdown AS slowdown,
    i.summary AS summary,
    i.action AS action
FROM incidents AS i
LEFT JOIN
(
    SELECT incident_id, uniqExact(job_id) AS on_jobs, min(first_step) AS first_step, max(last_step) AS last_step
    FROM diagnoses
    WHERE incident_id != '' AND job_id != ''
    GROUP BY incident_id
) AS f ON i.incident_id = f.incident_id
ORDER BY i.status, i.severity DESC, i.lost_gpu_h DESC, i.start_time, incident_id;

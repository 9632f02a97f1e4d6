-- Purpose: list the incidents that slow or stop a job in a span of time.
-- Parameters: job_id; from_ns, to_ns: the span, both included, nanoseconds since the epoch.
-- Result: incident_id, kind, subject_type, subject, may_also_be Array(String), confidence, start_ns, end_ns Int64, status, severity,
--   lost_gpu_h, slowdown, summary, action; by start and identity.
SELECT
    incident_id,
    toString(kind) AS kind,
    toString(subject_type) AS subject_type,
    subject,
    may_also_be,
    confidence,
    toUnixTimestamp64Nano(start_time) AS start_ns,
    toUnixTimestamp64Nano(end_time) AS end_ns,
    toString(status) AS status,
    toString(severity) AS severity,
    lost_gpu_h,
    slowdown,
    summary,
    action
FROM incidents
WHERE has(jobs, {job_id:String}) AND end_ns >= {from_ns:Int64} AND start_ns <= {to_ns:Int64}
ORDER BY start_ns, incident_id;

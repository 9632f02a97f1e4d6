-- Purpose: list incidents for the report and the page at /.
-- Parameters: incident_id, job_id, each empty for all; named Array(String): only those that name one of these servers or endpoints,
--   empty for all; only_open, 1 for open ones only; from_time, to_time: the span [from, to) into which they lasted, UTC; rows, at most.
-- Result: incident_id, kind, subject_type, subject String; may_also_be Array(String); confidence, 0 to 1; severity, status String;
--   start_ns, end_ns Int64; jobs Array(String); gpus; lost_gpu_h; slowdown, 0 to 1; summary, action String; incidents, critical,
--   warning, counts of all; lost_by_all, GPU-hours; open ones first, then the worst.
SELECT
    i.incident_id AS incident_id,
    i.kind::String AS kind,
    i.subject_type::String AS subject_type,
    i.subject AS subject,
    i.may_also_be AS may_also_be,
    i.confidence AS confidence,
    i.severity::String AS severity,
    i.status::String AS status,
    toUnixTimestamp64Nano(i.start_time) AS start_ns,
    toUnixTimestamp64Nano(i.end_time) AS end_ns,
    i.jobs AS jobs,
    i.gpus AS gpus,
    i.lost_gpu_h AS lost_gpu_h,
    i.slowdown AS slowdown,
    i.summary AS summary,
    i.action AS action,
    count() OVER () AS incidents,
    countIf(i.severity = 'critical') OVER () AS critical,
    countIf(i.severity = 'warning') OVER () AS warning,
    sum(i.lost_gpu_h) OVER () AS lost_by_all
FROM incidents AS i
WHERE ({incident_id:String} = '' OR i.incident_id = {incident_id:String})
    AND ({job_id:String} = '' OR has(i.jobs, {job_id:String}))
    AND (empty({named:Array(String)}) OR hasAny({named:Array(String)}, arrayPushFront(i.may_also_be, i.subject)))
    AND ({only_open:UInt8} = 0 OR i.status = 'open')
    AND i.end_time >= {from_time:DateTime64(9)} AND i.start_time < {to_time:DateTime64(9)}
ORDER BY i.status, i.severity DESC, i.lost_gpu_h DESC, i.start_time DESC, i.incident_id
LIMIT {rows:UInt64};

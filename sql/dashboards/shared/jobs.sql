-- Jobs in the span, stalled and slowest first: the steps of their latest window against what is usual for them, what they lost, and what is open.
WITH
    spent AS
    (
        SELECT job_id, sum(lost_gpu_s) / 3600 AS lost_gpu_h
        FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
        GROUP BY job_id
    ),
    latest AS
    (
        SELECT
            job_id,
            argMax((durations_s, steps, until_step), (least(last_step, until_step - 1), revision)) AS newest,
            arrayReduce('quantileExact(0.5)', arrayFilter((took_s, at) -> at < newest.3, newest.1, newest.2)) AS step_s
        FROM step_blocks
        WHERE start_time <= $__toTime AND end_time >= $__fromTime
        GROUP BY job_id
    ),
    found AS
    (
        SELECT arrayJoin(jobs) AS job_id, count() AS incidents
        FROM incidents
        WHERE status = 'open' AND end_time >= $__fromTime AND start_time <= $__toTime
        GROUP BY job_id
    )
SELECT
    j.job_id AS "Job",
    j.tenant AS "Tenant",
    j.status::String AS "Status",
    j.endpoints AS "GPUs",
    concat(toString(j.dp_size), ' x ', toString(j.pp_size)) AS "DP x PP",
    nullIf(l.step_s, 0) AS "Step time",
    j.step_s_median AS "Usual",
    "Step time" / nullIf(j.step_s_median, 0) - 1 AS "Slower",
    s.lost_gpu_h AS "GPU-hours lost",
    f.incidents AS "Open incidents",
    j.last_seen AS "Last seen"
FROM jobs AS j
LEFT JOIN spent AS s ON j.job_id = s.job_id
LEFT JOIN latest AS l ON j.job_id = l.job_id
LEFT JOIN found AS f ON j.job_id = f.job_id
WHERE j.last_seen >= $__fromTime AND j.first_seen <= $__toTime AND $__whose
ORDER BY j.status = 'stalled' DESC, "Slower" DESC NULLS LAST, "GPUs" DESC, "Job"
LIMIT 500

-- Jobs in the span, stalled and slowest first: their latest 20 steps against what is usual for them, what they lost, and what is open.
WITH
    (
        SELECT groupArray((job_id, lost_gpu_h, last_step))
        FROM
        (
            SELECT job_id, sum(lost_gpu_s) / 3600 AS lost_gpu_h, maxIf(step, lost_gpu_s < gpu_s OR cause = '') AS last_step
            FROM gpu_time_by_cause(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
            GROUP BY job_id
        )
    ) AS of_span,
    spent AS (SELECT one.1 AS job_id, one.2 AS lost_gpu_h FROM (SELECT arrayJoin(of_span) AS one)),
    latest AS
    (
        SELECT job_id, quantileExact(0.5)(duration_s) AS step_s
        FROM steps
        WHERE (job_id, step) IN (SELECT one.1, arrayJoin(range((one.3 - least(one.3, 19))::UInt64, one.3 + 1)) FROM (SELECT arrayJoin(of_span) AS one))
            AND end_time >= $__fromTime AND end_time <= $__toTime
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

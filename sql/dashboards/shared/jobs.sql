-- Jobs in the span, stalled and slowest first: their latest 20 steps against what is usual for them, what they lost, and what is open.
WITH
    spent AS
    (
        SELECT
            job_id,
            sum(lost_gpu_s) / 3600 AS lost_gpu_h,
            arraySlice(arrayPartialReverseSort(20, groupArrayIf((step, duration_s), lost_gpu_s < gpu_s)), 1, 20) AS latest,
            arrayReduce('quantileExact(0.5)', latest.2) AS step_s
        FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
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
    if(s.step_s > 0, s.step_s, NULL) AS "Step time",
    j.step_s_median AS "Usual",
    if(s.step_s > 0, s.step_s / nullIf(j.step_s_median, 0) - 1, NULL) AS "Slower",
    s.lost_gpu_h AS "GPU-hours lost",
    f.incidents AS "Open incidents",
    j.last_seen AS "Last seen"
FROM jobs AS j
LEFT JOIN spent AS s ON j.job_id = s.job_id
LEFT JOIN found AS f ON j.job_id = f.job_id
WHERE j.last_seen >= $__fromTime AND j.first_seen <= $__toTime AND $__whose
ORDER BY j.status = 'stalled' DESC, "Slower" DESC NULLS LAST, "GPUs" DESC, "Job"
LIMIT 500

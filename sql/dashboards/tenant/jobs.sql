-- Jobs in the span: their latest steps against what is usual for them, what they lost, and what is open.
WITH
    newest AS (SELECT job_id, max(step) AS step FROM steps WHERE $__timeFilter(end_time) GROUP BY job_id),
    latest AS
    (
        SELECT s.job_id AS job_id, quantileExact(0.5)(s.duration_s) AS step_s
        FROM steps AS s
        INNER JOIN newest AS n ON s.job_id = n.job_id
        WHERE s.step + 20 > n.step AND $__timeFilter(s.end_time)
        GROUP BY job_id
    ),
    spent AS
    (
        SELECT job_id, sum(lost_gpu_s) / 3600 AS lost_gpu_h, 1 - sum(lost_gpu_s) / sum(gpu_s) AS healthy
        FROM gpu_time
        WHERE $__timeFilter(end_time)
        GROUP BY job_id
    ),
    found AS
    (
        SELECT job_id, count() AS findings, max(severity)::String AS worst
        FROM diagnoses
        WHERE status = 'open' AND end_time >= $__fromTime AND start_time <= $__toTime
        GROUP BY job_id
    )
SELECT
    j.job_id AS "Job",
    j.status::String AS "Status",
    j.endpoints AS "GPUs",
    j.dp_size AS "DP",
    j.pp_size AS "PP",
    if(l.step_s > 0, l.step_s, NULL) AS "Step time",
    j.step_s_median AS "Usual",
    if(l.step_s > 0, l.step_s / j.step_s_median - 1, NULL) AS "Slower",
    s.healthy AS "Healthy",
    s.lost_gpu_h AS "GPU-hours lost",
    f.findings AS "Open findings",
    if(f.worst = '', 'none', f.worst) AS "Worst",
    j.last_seen AS "Last seen"
FROM jobs AS j
LEFT JOIN latest AS l ON j.job_id = l.job_id
LEFT JOIN spent AS s ON j.job_id = s.job_id
LEFT JOIN found AS f ON j.job_id = f.job_id
WHERE j.last_seen >= $__fromTime AND j.first_seen <= $__toTime AND j.tenant = ${tenant:sqlstring}
ORDER BY "Slower" DESC NULLS LAST, "GPUs" DESC
LIMIT 500

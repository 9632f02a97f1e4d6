-- Purpose: describe every job for the summary that `prism-ch run` prints.
-- Parameters: none.
-- Result: one row a job: job_id, tenant, status String; first_seen_ns, last_seen_ns Int64; endpoints, servers, dp_size, pp_size,
--   steps; step_s_median, step_s_p95 Float64, seconds, 0 where no step is complete; compute_share, pp_share, dp_share Float64
--   of the time of its complete steps, 0 to 1; durations_s Array(Float64) of its complete steps, in order; seen_share Float64
--   of its endpoints' time, 0 to 1; unseen_why String, the reason of the window of which least is seen.
SELECT
    j.job_id AS job_id,
    j.tenant AS tenant,
    j.status::String AS status,
    toUnixTimestamp64Nano(j.first_seen) AS first_seen_ns,
    toUnixTimestamp64Nano(j.last_seen) AS last_seen_ns,
    j.endpoints AS endpoints,
    j.servers AS servers,
    j.dp_size AS dp_size,
    j.pp_size AS pp_size,
    j.steps AS steps,
    j.step_s_median AS step_s_median,
    s.step_s_p95 AS step_s_p95,
    s.compute_share AS compute_share,
    s.pp_share AS pp_share,
    s.dp_share AS dp_share,
    s.durations_s AS durations_s,
    if(v.windows = 0, 1, v.seen_share) AS seen_share,
    v.unseen_why AS unseen_why
FROM jobs AS j
LEFT JOIN
(
    SELECT
        job_id,
        quantileExact(0.95)(duration_s) AS step_s_p95,
        sum(compute_s) / sum(compute_s + pp_s + dp_s) AS compute_share,
        sum(pp_s) / sum(compute_s + pp_s + dp_s) AS pp_share,
        sum(dp_s) / sum(compute_s + pp_s + dp_s) AS dp_share,
        arrayMap(pair -> pair.2, arraySort(groupArray((step, duration_s)))) AS durations_s
    FROM steps
    WHERE complete
    GROUP BY job_id
) AS s ON j.job_id = s.job_id
LEFT JOIN
(
    SELECT job_id, count() AS windows, avg(share) AS seen_share, argMin(why, share) AS unseen_why
    FROM visibility
    GROUP BY job_id
) AS v ON j.job_id = v.job_id
ORDER BY tenant, first_seen_ns, job_id;

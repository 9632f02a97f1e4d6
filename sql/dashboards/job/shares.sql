-- What the job's steps consisted of, as shares of their time.
SELECT
    $__timeInterval_ms(end_time) AS time,
    sum(compute_s) / sum(duration_s) AS "Compute",
    sum(pp_s) / sum(duration_s) AS "Pipeline",
    sum(dp_s) / sum(duration_s) AS "Data parallel",
    greatest(1 - sum(compute_s + pp_s + dp_s) / sum(duration_s), 0) AS "Other"
FROM steps
WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time) AND duration_s > 0
GROUP BY time
ORDER BY time

-- What the job's steps consisted of, as shares of their time; the rest is none of these.
SELECT
    $__timeInterval_ms(end_time) AS time,
    sum(compute_s) / sum(duration_s) AS "Compute",
    sum(pp_s) / sum(duration_s) AS "Pipeline",
    sum(dp_s) / sum(duration_s) AS "Data parallel"
FROM steps
WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time) AND duration_s > 0
GROUP BY time
ORDER BY time

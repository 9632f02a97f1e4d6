-- Purpose: compare a job's steps before, during and after a span of steps, for the report.
-- Parameters: job_id; first_step, last_step of the span; width, of how many steps before and after.
-- Result: part String: before, during, after; steps, count; step_s, the median, step_s_p95, compute_s, pp_s, dp_s, means, seconds.
SELECT
    ['before', 'during', 'after'][(step >= {first_step:UInt64}) + (step > {last_step:UInt64}) + 1] AS part,
    count() AS steps,
    quantileExact(0.5)(duration_s) AS step_s,
    quantileExact(0.95)(duration_s) AS step_s_p95,
    avg(compute_s) AS compute_s,
    avg(pp_s) AS pp_s,
    avg(dp_s) AS dp_s
FROM steps
WHERE job_id = {job_id:String} AND complete
    AND step + {width:UInt64} >= {first_step:UInt64} AND step <= {last_step:UInt64} + {width:UInt64}
GROUP BY part
ORDER BY min(step);

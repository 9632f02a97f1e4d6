-- Purpose: draw a job's step times.
-- Parameters: job_id; from_time, to_time: the span [from, to) in which the steps began, UTC; points, at most.
-- Result: first_step, last_step UInt64 of the steps in a point; start_ns Int64, of the first; step_s, the median, longest_s; compute_s,
--   pp_s, dp_s, means, seconds; by step.
WITH
    (
        SELECT count()
        FROM steps
        WHERE job_id = {job_id:String} AND start_time >= {from_time:DateTime64(9)} AND start_time < {to_time:DateTime64(9)} AND complete
    ) AS total,
    intDiv(total + {points:UInt64} - 1, {points:UInt64}) AS together
SELECT
    min(step) AS first_step,
    max(step) AS last_step,
    min(toUnixTimestamp64Nano(start_time)) AS start_ns,
    quantileExact(0.5)(duration_s) AS step_s,
    max(duration_s) AS longest_s,
    avg(compute_s) AS compute_s,
    avg(pp_s) AS pp_s,
    avg(dp_s) AS dp_s
FROM
(
    SELECT step, start_time, duration_s, compute_s, pp_s, dp_s, row_number() OVER (ORDER BY step) - 1 AS place
    FROM steps
    WHERE job_id = {job_id:String} AND start_time >= {from_time:DateTime64(9)} AND start_time < {to_time:DateTime64(9)} AND complete
)
GROUP BY intDiv(place, greatest(together, 1))
ORDER BY first_step;

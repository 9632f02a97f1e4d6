-- Purpose: say how much of a job is seen.
-- Parameters: job_id; from_time, to_time: the span [from, to) in which windows began, UTC.
-- Result: one row: windows, count; share, the mean share of its endpoints' time that can be seen, 0 to 1; least, of a window; why String,
--   of that window; complete_steps, steps, counts.
SELECT
    v.windows AS windows,
    if(v.windows = 0, 1, v.share) AS share,
    if(v.windows = 0, 1, v.least) AS least,
    v.why AS why,
    s.complete_steps AS complete_steps,
    s.steps AS steps
FROM
(
    SELECT count() AS windows, avg(visibility.share) AS share, min(visibility.share) AS least, argMin(visibility.why, visibility.share) AS why
    FROM visibility
    WHERE job_id = {job_id:String} AND window_start >= {from_time:DateTime64(9)} AND window_start < {to_time:DateTime64(9)}
) AS v
CROSS JOIN
(
    SELECT countIf(complete) AS complete_steps, count() AS steps
    FROM steps
    WHERE job_id = {job_id:String} AND start_time >= {from_time:DateTime64(9)} AND start_time < {to_time:DateTime64(9)}
) AS s;

-- Purpose: steps of a job that began in a span of time.
-- Parameters: job_id; from_time, to_time: the span [from, to), UTC.
-- Result: the columns of steps; by step.
SELECT *
FROM steps
WHERE job_id = {job_id:String} AND start_time >= {from_time:DateTime64(9)} AND start_time < {to_time:DateTime64(9)}
ORDER BY step;

-- Purpose: find which steps of a job are there to export, and when they were.
-- Parameters: job_id; first_step, last_step, both included.
-- Result: one row: steps, how many there are; first_step, last_step; start_ns, end_ns Int64, nanoseconds since the epoch;
--   step_s, their median duration.
SELECT
    count() AS steps,
    min(step) AS first_step,
    max(step) AS last_step,
    toUnixTimestamp64Nano(min(start_time)) AS start_ns,
    toUnixTimestamp64Nano(max(end_time)) AS end_ns,
    ifNotFinite(median(duration_s), 0) AS step_s
FROM steps
WHERE job_id = {job_id:String} AND step >= {first_step:UInt64} AND step <= {last_step:UInt64};

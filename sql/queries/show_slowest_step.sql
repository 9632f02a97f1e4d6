-- Purpose: find a job's slowest step.
-- Parameters: job_id; from_time, to_time: the span [from, to) in which it began, UTC.
-- Result: one row or none: step; start_ns, end_ns Int64; duration_s; compute_s, pp_s, dp_s, means, seconds; slowest_endpoints
--   Array(String).
SELECT
    step,
    toUnixTimestamp64Nano(start_time) AS start_ns,
    toUnixTimestamp64Nano(end_time) AS end_ns,
    duration_s,
    compute_s,
    pp_s,
    dp_s,
    slowest_endpoints
FROM steps
WHERE job_id = {job_id:String} AND start_time >= {from_time:DateTime64(9)} AND start_time < {to_time:DateTime64(9)} AND complete
ORDER BY duration_s DESC, step
LIMIT 1;

-- Purpose: show one step of a job on its page.
-- Parameters: job_id; step.
-- Result: one row or none: step; start_ns, end_ns Int64; duration_s, compute_s, pp_s, dp_s, seconds; slowest_endpoints Array(String).
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
WHERE job_id = {job_id:String} AND step = {step:UInt64};

-- Purpose: list a job's steps on its page.
-- Parameters: job_id; slowest, 1 for the slowest first, 0 for the newest first; rows, first_row: a page of them.
-- Result: step; start_ns, end_ns Int64; duration_s, compute_s, pp_s, dp_s, seconds; slowest_endpoints Array(String); steps, count of all
--   pages.
SELECT
    step,
    toUnixTimestamp64Nano(start_time) AS start_ns,
    toUnixTimestamp64Nano(end_time) AS end_ns,
    duration_s,
    compute_s,
    pp_s,
    dp_s,
    slowest_endpoints,
    count() OVER () AS steps
FROM steps
WHERE job_id = {job_id:String}
ORDER BY if({slowest:UInt8} = 1, duration_s, 0) DESC, step DESC
LIMIT {first_row:UInt64}, {rows:UInt64};

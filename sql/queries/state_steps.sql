-- Purpose: read the newest steps of jobs as they were known before a window.
-- Parameters: job_ids; before_ns: start of the window, nanoseconds since the epoch; history_steps: how many steps of each.
-- Result: job_id String, step UInt64, start_ns and end_ns Int64, compute_s, pp_s, dp_s Float64, slowest_endpoint String,
--   complete UInt8.
WITH live AS
(
    SELECT
        job_id,
        revision,
        ifNull(
            minOrNull(from_step) OVER (PARTITION BY job_id ORDER BY revision ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING),
            18446744073709551615
        ) AS until_step
    FROM revisions
    WHERE job_id IN ({job_ids:Array(String)}) AND window_start < fromUnixTimestamp64Nano({before_ns:Int64})
)
SELECT
    l.job_id AS job_id,
    step,
    toUnixTimestamp64Nano(start_time) AS start_ns,
    toUnixTimestamp64Nano(end_time) AS end_ns,
    compute_s,
    pp_s,
    dp_s,
    slowest_endpoint,
    complete
FROM steps_log AS l
INNER JOIN live AS r ON l.job_id = r.job_id AND l.revision = r.revision
WHERE l.job_id IN ({job_ids:Array(String)}) AND step < until_step
ORDER BY job_id, step DESC
LIMIT {history_steps:UInt64} BY job_id;

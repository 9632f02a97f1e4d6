-- Purpose: read the newest steps of jobs, and some of those before, as they were known before a window. They lie close
--   together in the table's key.
-- Parameters: job_ids; since_steps, until_steps: the span [since, until) of each that holds them; recent_steps: from which
--   on all are read; strides: by what the number of an earlier one divides; before_ns: start of the window, nanoseconds
--   since the epoch.
-- Result: job_id String, step UInt64, start_ns and end_ns Int64, compute_s, pp_s, dp_s Float64, slowest_endpoints
--   Array(String), complete UInt8.
WITH
    cut AS
    (
        SELECT
            job_id,
            revision,
            min(from_step) OVER (PARTITION BY job_id ORDER BY revision DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS until_step
        FROM revisions
        WHERE cuts AND job_id IN ({job_ids:Array(String)}) AND window_start < fromUnixTimestamp64Nano({before_ns:Int64})
    )
SELECT
    l.job_id AS job_id,
    step,
    toUnixTimestamp64Nano(start_time) AS start_ns,
    toUnixTimestamp64Nano(end_time) AS end_ns,
    compute_s,
    pp_s,
    dp_s,
    slowest_endpoints,
    complete
FROM steps_log AS l
ASOF LEFT JOIN cut AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE
    (l.job_id, intDiv(l.step, 256)) IN
    (
        SELECT span.1, arrayJoin(range(intDiv(span.2, 256), intDiv(span.3, 256) + 1))
        FROM (SELECT arrayJoin(arrayZip({job_ids:Array(String)}, {since_steps:Array(UInt64)}, {until_steps:Array(UInt64)})) AS span)
    )
    AND
    (
        step >= transform(l.job_id, {job_ids:Array(String)}, {recent_steps:Array(UInt64)}, 0)
        OR step % transform(l.job_id, {job_ids:Array(String)}, {strides:Array(UInt64)}, 1) = 0
    )
    AND (c.revision = 0 OR step < until_step)
    AND l.revision IN (SELECT revision FROM published WHERE window_start < fromUnixTimestamp64Nano({before_ns:Int64}));

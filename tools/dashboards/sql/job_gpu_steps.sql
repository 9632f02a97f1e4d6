-- Purpose: makes the steps of each endpoint of one job from the job's: who is to blame works longer, the others wait.
-- Parameters: job_id, tenant, endpoints, first_server, steps, episodes, as of job_steps; is_replayed, 1 where it is known what
-- they waited for.
INSERT INTO gpu_steps_log
    (job_id, revision, tenant, endpoint, step, start_time, end_time, duration_s, compute_s, pp_s, dp_s, complete, idle_s)
WITH {episodes:Array(Tuple(Float64, Float64, Float64, UInt32, UInt8, UInt8))} AS episodes
SELECT
    {job_id:String},
    revision,
    {tenant:String},
    concat('10.', toString(100 + number % 8), '.', toString(intDiv(server, 250)), '.', toString(server % 250 + 1)),
    step,
    start_time,
    end_time,
    duration_s,
    0.6 * (duration_s - extra_s) * jitter + if(blamed AND e.6 = 1, extra_s, 0),
    0.15 * (duration_s - extra_s) * jitter + if(blamed AND e.6 = 0, extra_s, 0),
    duration_s - 0.75 * (duration_s - extra_s) * jitter - if(blamed, extra_s, 0),
    1,
    if({is_replayed:UInt8} = 1, 0.1 * (duration_s - extra_s), NULL)
FROM
(
    SELECT
        s.*,
        number,
        {first_server:UInt32} + intDiv(number, 8) AS server,
        1 + 0.02 * (cityHash64(number, step) % 2000 / 1000 - 1) AS jitter,
        arrayFirst(e -> step >= e.1 * {steps:UInt64} AND step < e.2 * {steps:UInt64}, episodes) AS e,
        greatest(duration_s - compute_s / 0.6, 0) AS extra_s,
        e.3 > 0 AND intDiv(number, 8) = e.4 AND number % 8 = e.5 AS blamed
    FROM (SELECT revision, step, start_time, end_time, duration_s, compute_s FROM steps_log WHERE job_id = {job_id:String}) AS s
    CROSS JOIN numbers({endpoints:UInt32}) AS n
);

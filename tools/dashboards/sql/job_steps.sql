-- Purpose: makes the steps of one job, back from the end of the data; they are slow while an episode lasts.
-- Parameters: job_id, tenant, endpoints, first_server, step_s, steps, end_ns, from_ns; episodes, each from and to which
-- share of the steps, how much longer they take (shares of step_s), the server in the job, the GPU and 1 where the GPU
-- computes longer; pause_at, the share of the steps at which the job stands still for pause_s.
INSERT INTO steps_log
    (job_id, revision, tenant, step, start_time, end_time, duration_s, compute_s, pp_s, dp_s, slowest_endpoint, slowest_endpoints, complete)
WITH
    {episodes:Array(Tuple(Float64, Float64, Float64, UInt32, UInt8, UInt8))} AS episodes,
    worked AS
    (
        SELECT
            number AS n,
            {step_s:Float64} * (1 + 0.02 * (cityHash64({job_id:String}, number) % 2000 / 1000 - 1)) AS usual_s,
            arrayFirst(e -> n >= e.1 * {steps:UInt64} AND n < e.2 * {steps:UInt64}, episodes) AS e,
            (n = toUInt64({pause_at:Float64} * {steps:UInt64}) AND n > 0) * {pause_s:Float64} AS paused_s,
            usual_s + {step_s:Float64} * e.3 + paused_s AS took_s
        FROM numbers({steps:UInt64})
    ),
    placed AS
    (
        SELECT
            *,
            {end_ns:Int64} - toInt64((sum(took_s) OVER () - sum(took_s) OVER (ORDER BY n)) * 1e9) AS ended_ns
        FROM worked
    )
SELECT
    {job_id:String},
    intDiv(ended_ns - {from_ns:Int64}, 60000000000) + 1,
    {tenant:String},
    n,
    fromUnixTimestamp64Nano(ended_ns - toInt64(took_s * 1e9)),
    fromUnixTimestamp64Nano(ended_ns),
    took_s,
    0.6 * usual_s,
    0.15 * usual_s,
    took_s - 0.75 * usual_s,
    concat(
        '10.', toString(100 + if(e.3 > 0, e.5, n % 8)), '.',
        toString(intDiv({first_server:UInt32} + if(e.3 > 0, e.4, n % intDiv({endpoints:UInt32}, 8)), 250)), '.',
        toString(({first_server:UInt32} + if(e.3 > 0, e.4, n % intDiv({endpoints:UInt32}, 8))) % 250 + 1)
    ) AS slowest,
    [slowest],
    1
FROM placed;

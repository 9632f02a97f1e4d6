-- Purpose: draw what GPUs of a job did in one of its steps.
-- Parameters: job_id; step; from_ns, to_ns: phases that lie in this span at least partly, nanoseconds since the epoch; gpus, at most;
--   first_gpu, how many are left out before them.
-- Result: server String; gpu; endpoint String; waited_s, time in DP phases, seconds; phases Array(Tuple(String, Int64, Int64)), each with
--   its start and end, nanoseconds since the epoch; gpus of all, count; who waited least in collectives first: the others wait for those.
SELECT
    m.server AS server,
    m.number AS gpu,
    p.endpoint AS endpoint,
    p.waited_ns / 1e9 AS waited_s,
    p.shown AS phases,
    count() OVER () AS gpus
FROM
(
    SELECT
        endpoint,
        sumIf(end_ns - start_ns, phase = 'DP') AS waited_ns,
        arraySort(f -> f.2, groupArrayIf((phase, start_ns, end_ns), end_ns > {from_ns:Int64} AND start_ns < {to_ns:Int64})) AS shown
    FROM
    (
        SELECT
            endpoint,
            phase::String AS phase,
            toUnixTimestamp64Nano(start_time) AS start_ns,
            toUnixTimestamp64Nano(end_time) AS end_ns
        FROM timeline
        WHERE job_id = {job_id:String} AND step = {step:UInt64}
    )
    GROUP BY endpoint
) AS p
LEFT JOIN (SELECT endpoint, server, gpu AS number FROM job_members WHERE job_id = {job_id:String}) AS m ON p.endpoint = m.endpoint
ORDER BY waited_s, endpoint
LIMIT {first_gpu:UInt64}, {gpus:UInt64};

-- Purpose: show how much longer each GPU of a job worked than its peers of the same stage.
-- Parameters: job_id; first_step, last_step: of at most 80 steps between them, evenly spread.
-- Result: server String; gpu; endpoint String; pp_stage; work_s, the mean of compute_s + pp_s, seconds; excess, against the median of its
--   stage, 0 is as usual; steps, how many count; by server and gpu.
SELECT
    server,
    number AS gpu,
    endpoint,
    stage AS pp_stage,
    work_s,
    if(median(work_s) OVER (PARTITION BY stage) > 0, work_s / median(work_s) OVER (PARTITION BY stage) - 1, 0) AS excess,
    steps
FROM
(
    SELECT
        any(m.server) AS server, any(m.gpu) AS number, g.endpoint AS endpoint, any(m.pp_stage) AS stage,
        avg(g.compute_s + g.pp_s) AS work_s, count() AS steps
    FROM gpu_steps AS g
    INNER JOIN (SELECT endpoint, server, gpu, pp_stage FROM job_members WHERE job_id = {job_id:String}) AS m ON g.endpoint = m.endpoint
    WHERE g.job_id = {job_id:String} AND g.complete AND g.step <= {last_step:UInt64}
        AND g.step IN
        (
            SELECT {first_step:UInt64} + number * intDiv({last_step:UInt64} - {first_step:UInt64} + 80, 80)
            FROM numbers(80)
        )
    GROUP BY g.endpoint
)
ORDER BY server, gpu, endpoint;

-- How much longer GPUs worked than their peers of the same stage, in up to 120 steps of the span; of the 24 GPUs that
-- stand out most. Waiting in data-parallel collectives does not count: who makes the others wait is the one that works.
WITH
    picked AS
    (
        SELECT step
        FROM
        (
            SELECT step, row_number() OVER (ORDER BY step) AS place, count() OVER () AS total
            FROM steps
            WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time)
        )
        WHERE place % greatest(intDiv(total + 119, 120), 1) = 0
    ),
    compared AS
    (
        SELECT
            g.step AS step,
            g.endpoint AS endpoint,
            concat(m.server, ' GPU ', toString(m.gpu)) AS gpu,
            max(g.end_time) OVER (PARTITION BY g.step) AS time,
            g.compute_s + g.pp_s AS work_s,
            work_s / nullIf(median(g.compute_s + g.pp_s) OVER (PARTITION BY g.step, m.pp_stage), 0) - 1 AS excess
        FROM gpu_steps AS g
        INNER JOIN (SELECT endpoint, server, gpu, pp_stage FROM job_members WHERE job_id = ${job:sqlstring}) AS m ON g.endpoint = m.endpoint
        WHERE g.job_id = ${job:sqlstring} AND g.step IN (SELECT step FROM picked)
            AND g.start_time >= $__fromTime - INTERVAL 1 HOUR AND g.start_time <= $__toTime
    )
SELECT time, gpu, excess
FROM compared
WHERE endpoint IN (SELECT endpoint FROM compared GROUP BY endpoint ORDER BY max(excess) DESC, endpoint LIMIT 24) AND isNotNull(excess)
ORDER BY time, gpu

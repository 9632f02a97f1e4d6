-- How much longer GPUs worked than their peers of the same stage, in up to 80 steps of the span; of the 24 GPUs that
-- stand out most. Waiting in data-parallel collectives does not count: who makes the others wait is the one that works.
WITH picked AS
(
    SELECT step
    FROM
    (
        SELECT step, row_number() OVER (ORDER BY step) AS place, count() OVER () AS total
        FROM steps
        WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time)
    )
    WHERE place % greatest(intDiv(total + 79, 80), 1) = 0
)
SELECT point.1 AS time, gpu, point.2 AS excess
FROM
(
    SELECT one.1 AS gpu, groupArray((ended, one.2 / usual_s - 1)) AS points, max(one.2 / usual_s) AS worst
    FROM
    (
        SELECT max(ended) OVER (PARTITION BY step) AS ended, usual_s, worked
        FROM
        (
            SELECT
                g.step AS step,
                max(g.end_time) AS ended,
                median(g.compute_s + g.pp_s) AS usual_s,
                groupArray((m.gpu, g.compute_s + g.pp_s)) AS worked
            FROM gpu_steps AS g
            INNER JOIN
            (
                SELECT endpoint, concat(server, ' GPU ', toString(job_members.gpu)) AS gpu, pp_stage
                FROM job_members
                WHERE job_id = ${job:sqlstring}
            ) AS m ON g.endpoint = m.endpoint
            WHERE g.job_id = ${job:sqlstring} AND g.step IN (SELECT step FROM picked)
                AND g.start_time >= $__fromTime - INTERVAL 1 HOUR AND g.start_time <= $__toTime
            GROUP BY g.step, m.pp_stage
        )
        WHERE usual_s > 0
    )
    ARRAY JOIN worked AS one
    GROUP BY gpu
    ORDER BY worst DESC, gpu
    LIMIT 24
)
ARRAY JOIN points AS point
ORDER BY time, gpu

-- How much longer GPUs computed than their peers, in up to 80 steps of the span; of the 24 GPUs that stand out most. Peers
-- are those of the same data-parallel group, of a small group those of the same stage. Waiting for others is left out where
-- it is known (gpu_steps.idle_s).
WITH
    (
        SELECT (min(toUnixTimestamp64Milli(end_time)), max(toUnixTimestamp64Milli(end_time)), groupArray(step))
        FROM
        (
            SELECT step, end_time, row_number() OVER (ORDER BY step) AS place, count() OVER () AS total
            FROM steps
            WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time)
        )
        WHERE place % greatest(intDiv(total + 79, 80), 1) = 0
    ) AS shown,
    greatest(intDiv(shown.2 - shown.1, 79), 1) AS cell_ms,
    shown.1 + cell * cell_ms AS at_ms
SELECT fromUnixTimestamp64Milli(at_ms, 'UTC') AS time, gpu, arrayFirst(one -> one.1 >= at_ms, points).2 AS excess
FROM
(
    SELECT one.1 AS gpu, arraySort(groupArray((ended_ms, one.2 / usual_s - 1))) AS points, max(one.2 / usual_s) AS worst
    FROM
    (
        SELECT max(ended) OVER (PARTITION BY step) AS ended_ms, usual_s, worked
        FROM
        (
            SELECT
                g.step AS step,
                max(toUnixTimestamp64Milli(g.end_time)) AS ended,
                median(g.compute_s - ifNull(g.idle_s, 0)) AS usual_s,
                groupArray((m.gpu, g.compute_s - ifNull(g.idle_s, 0))) AS worked
            FROM gpu_steps AS g
            INNER JOIN
            (
                SELECT
                    endpoint,
                    concat(server, ' GPU ', toString(job_members.gpu)) AS gpu,
                    if(count() OVER (PARTITION BY dp_group) > 2, dp_group::Int64, -1 - pp_stage::Int64) AS peers
                FROM job_members
                WHERE job_id = ${job:sqlstring}
            ) AS m ON g.endpoint = m.endpoint
            WHERE g.job_id = ${job:sqlstring} AND g.step IN (SELECT arrayJoin(shown.3))
                AND g.start_time >= $__fromTime - INTERVAL 1 HOUR AND g.start_time <= $__toTime
            GROUP BY g.step, m.peers
        )
        WHERE usual_s > 0
    )
    ARRAY JOIN worked AS one
    GROUP BY gpu
    ORDER BY worst DESC, gpu
    LIMIT 24
)
ARRAY JOIN range(if(shown.1 = shown.2, 1, 80)) AS cell
ORDER BY time, gpu

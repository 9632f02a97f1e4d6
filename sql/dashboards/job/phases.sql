-- The phases of the last six steps in the span, of the twelve GPUs that wait least in collectives: those the others wait
-- for. 1 compute, 2 PP, 3 DP, 4 EP, 5 CP, 6 TP, 0 between steps.
WITH
    (
        SELECT (min(step), max(step), min(start_time), max(end_time))
        FROM
        (
            SELECT step, start_time, end_time
            FROM steps
            WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time)
            ORDER BY step DESC
            LIMIT 6
        )
    ) AS shown,
    chosen AS
    (
        SELECT endpoint
        FROM gpu_steps
        WHERE job_id = ${job:sqlstring} AND step BETWEEN shown.1 AND shown.2 AND start_time >= shown.3 - INTERVAL 1 HOUR AND start_time <= shown.4
        GROUP BY endpoint
        ORDER BY sum(dp_s), endpoint
        LIMIT 12
    )
SELECT p.time AS time, concat(m.server, ' GPU ', toString(m.gpu)) AS gpu, p.phase AS phase
FROM
(
    SELECT endpoint, start_time AS time, phase::Int8 AS phase
    FROM timeline
    WHERE job_id = ${job:sqlstring} AND step BETWEEN shown.1 AND shown.2 AND start_time >= shown.3 - INTERVAL 1 HOUR AND start_time <= shown.4
        AND endpoint IN (SELECT endpoint FROM chosen)
    UNION ALL
    SELECT endpoint, max(end_time) AS time, 0::Int8 AS phase
    FROM gpu_steps
    WHERE job_id = ${job:sqlstring} AND step = shown.2 AND start_time >= shown.3 - INTERVAL 1 HOUR AND start_time <= shown.4
        AND endpoint IN (SELECT endpoint FROM chosen)
    GROUP BY endpoint
) AS p
INNER JOIN (SELECT endpoint, server, gpu FROM job_members WHERE job_id = ${job:sqlstring}) AS m ON p.endpoint = m.endpoint
ORDER BY time, gpu
LIMIT 20000

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
    ) AS shown
SELECT point.1 AS time, concat(m.server, ' GPU ', toString(m.gpu)) AS gpu, point.2 AS phase
FROM
(
    SELECT
        endpoint,
        arrayPushBack(groupArray((start_time, phase::Int8)), (max(end_time), 0::Int8)) AS points,
        sumIf(toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time), phase = 'DP') AS waited_ns
    FROM timeline
    WHERE job_id = ${job:sqlstring} AND step BETWEEN shown.1 AND shown.2 AND start_time >= shown.3 - INTERVAL 1 HOUR AND start_time <= shown.4
    GROUP BY endpoint
    ORDER BY waited_ns, endpoint
    LIMIT 12
) AS p
INNER JOIN (SELECT endpoint, server, job_members.gpu AS gpu FROM job_members WHERE job_id = ${job:sqlstring}) AS m ON p.endpoint = m.endpoint
ARRAY JOIN p.points AS point
ORDER BY time, gpu
LIMIT 20000

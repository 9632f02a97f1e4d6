-- In which phase each GPU was during the longest of the last 50 steps of the span, in % of the step; of the sixteen GPUs that
-- wait least in collectives: those the others wait for. 1 compute, 2 PP, 3 DP, 4 EP, 5 CP, 6 TP, 0 none.
WITH
    (
        SELECT (any(step), any(toUnixTimestamp64Nano(start_time)), any(toUnixTimestamp64Nano(end_time)), any(start_time) - INTERVAL 1 HOUR, any(end_time))
        FROM
        (
            SELECT step, start_time, end_time
            FROM
            (
                SELECT step, start_time, end_time, duration_s
                FROM steps
                WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time)
                ORDER BY step DESC
                LIMIT 50
            )
            ORDER BY duration_s DESC, step
            LIMIT 1
        )
    ) AS shown,
    shown.2 + intDiv((2 * cell + 1) * (shown.3 - shown.2), 50) AS at_ns
SELECT
    concat(m.server, ' GPU ', toString(m.gpu)) AS "GPU",
    concat(toString(cell * 4), '%') AS "At",
    arrayFirst(one -> one.1 <= at_ns AND one.2 > at_ns, p.phases).3 AS "Phase"
FROM
(
    SELECT
        endpoint,
        groupArray((toUnixTimestamp64Nano(start_time), toUnixTimestamp64Nano(end_time), phase::Int8)) AS phases,
        sumIf(toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time), phase = 'DP') AS waited_ns
    FROM timeline
    WHERE job_id = ${job:sqlstring} AND step = shown.1 AND start_time >= shown.4 AND start_time <= shown.5
    GROUP BY endpoint
    ORDER BY waited_ns, endpoint
    LIMIT 16
) AS p
INNER JOIN (SELECT endpoint, server, job_members.gpu AS gpu FROM job_members WHERE job_id = ${job:sqlstring}) AS m ON p.endpoint = m.endpoint
ARRAY JOIN range(25) AS cell
ORDER BY p.waited_ns, "GPU", cell

-- How much longer each GPU worked than its peers, in up to 12 steps of the span; whom open incidents name first, then those that
-- stand out most, up to 16. Peers are the GPUs of the same stage and turn: of the same data-parallel group, of a small one those
-- of the same stage. What a GPU waited for is left out where replays tell it; "with waiting" where they don't, and then waiting
-- for another GPU counts as work.
WITH
    (
        SELECT groupUniqArrayArray(arrayConcat(splitByString('->', subject), may_also_be))
        FROM incidents
        WHERE has(jobs, ${job:sqlstring}) AND status = 'open' AND severity != 'info' AND end_time >= $__fromTime AND start_time <= $__toTime
    ) AS named,
    (
        SELECT groupArray(step)
        FROM
        (
            SELECT step, row_number() OVER (ORDER BY step DESC) AS place, count() OVER () AS total
            FROM steps
            WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time)
        )
        WHERE (place - 1) % greatest(intDiv(total + 11, 12), 1) = 0
    ) AS shown
SELECT
    concat(cell.1, if(cell.4, '', ' with waiting')) AS "GPU",
    formatDateTime(fromUnixTimestamp64Milli(cell.2), '%H:%i:%S', 'UTC') AS "At",
    cell.3 AS "Work beyond peers"
FROM
(
    SELECT gpu, groupArray((gpu, ended_ms, excess, is_known)) AS cells, max(is_named) AS first, max(excess) AS worst
    FROM
    (
        SELECT
            max(ended) OVER (PARTITION BY step) AS ended_ms,
            one.1 AS gpu, one.2 / nullIf(usual_s, 0) - 1 AS excess, one.3 AS is_known, one.4 AS is_named
        FROM
        (
            SELECT
                g.step AS step,
                max(toUnixTimestamp64Milli(g.end_time)) AS ended,
                median(g.compute_s - ifNull(g.idle_s, 0)) AS usual_s,
                groupArray((m.gpu, g.compute_s - ifNull(g.idle_s, 0), isNotNull(g.idle_s), m.is_named)) AS worked
            FROM gpu_steps AS g
            INNER JOIN
            (
                SELECT
                    endpoint,
                    concat(server, ' GPU ', toString(job_members.gpu)) AS gpu,
                    has(named, endpoint) OR has(named, server) AS is_named,
                    if(count() OVER (PARTITION BY dp_group) > 2, dp_group::Int64, -1 - pp_stage::Int64) AS peers
                FROM job_members
                WHERE job_id = ${job:sqlstring}
            ) AS m ON g.endpoint = m.endpoint
            WHERE g.job_id = ${job:sqlstring} AND g.step IN (SELECT arrayJoin(shown))
                AND g.start_time >= $__fromTime - INTERVAL 1 HOUR AND g.start_time <= $__toTime
            GROUP BY g.step, m.peers
        )
        ARRAY JOIN worked AS one
    )
    GROUP BY gpu
    ORDER BY first DESC, worst DESC, gpu
    LIMIT 16
)
ARRAY JOIN arraySort(one -> one.2, cells) AS cell
ORDER BY first DESC, worst DESC, gpu, cell.2

-- How much longer each GPU of the server worked than its peers, in up to 12 steps of each of its latest four jobs. Peers are the
-- GPUs of the same data-parallel group, of a small one those of the same stage of the pipeline. What it waited for is left out
-- where replays tell it; "with waiting" where they don't, and then waiting for another GPU counts as work.
WITH
    latest AS
    (
        SELECT job_id
        FROM job_members
        WHERE server IN (${host:sqlstring}) AND last_seen >= $__fromTime AND first_seen <= $__toTime
        GROUP BY job_id
        ORDER BY max(last_seen) DESC, job_id
        LIMIT 4
    ),
    member AS
    (
        SELECT
            job_id, endpoint, server, gpu, last_seen,
            if(count() OVER (PARTITION BY job_id, dp_group) > 2, dp_group::Int64, -1 - pp_stage::Int64) AS peers
        FROM job_members
        WHERE job_id IN (SELECT job_id FROM latest)
    ),
    shown AS
    (
        SELECT job_id, step
        FROM
        (
            SELECT job_id, step, row_number() OVER w AS place, count() OVER (PARTITION BY job_id) AS total
            FROM steps
            WHERE job_id IN (SELECT job_id FROM latest) AND $__timeFilter_ms(end_time)
            WINDOW w AS (PARTITION BY job_id ORDER BY step DESC)
        )
        WHERE (place - 1) % greatest(intDiv(total + 11, 12), 1) = 0
    )
SELECT
    concat('GPU ', toString(number), if(known, '', ' with waiting')) AS "GPU",
    concat(formatDateTime(ended, '%m-%d %H:%i:%S', 'UTC'), if(count() OVER (PARTITION BY number, ended) > 1, concat(' ', job), '')) AS "At",
    excess AS "Work beyond peers"
FROM
(
    SELECT
        server, number, job, min(is_known) OVER (PARTITION BY server, number) AS known,
        max(ended_at) OVER (PARTITION BY job, step) AS ended,
        work_s / nullIf(median(work_s) OVER (PARTITION BY job, step, peers), 0) - 1 AS excess
    FROM
    (
        SELECT
            m.server AS server, m.gpu AS number, m.peers AS peers, g.job_id AS job, g.step AS step, g.end_time AS ended_at,
            isNotNull(g.idle_s) AS is_known, g.compute_s - ifNull(g.idle_s, 0) AS work_s
        FROM gpu_steps AS g
        INNER JOIN member AS m ON g.job_id = m.job_id AND g.endpoint = m.endpoint
        WHERE (g.job_id, g.step) IN (SELECT job_id, step FROM shown)
            AND g.start_time >= $__fromTime - INTERVAL 1 HOUR AND g.start_time <= $__toTime
    )
)
WHERE server IN (${host:sqlstring})
ORDER BY number, ended, job

-- How much longer GPUs worked than their peers of the same stage while the finding lasted, by server and GPU: a hot cell
-- is a GPU, a hot row a server, a hot column a rail. Of the 32 servers that stand out most, over up to 100 steps.
WITH
    (SELECT (any(job_id), any(first_step), any(last_step)) FROM diagnoses WHERE diagnosis_id = ${finding:sqlstring}) AS f
SELECT server AS "Server", concat('GPU ', toString(number)) AS "GPU", excess AS "Excess"
FROM
(
    SELECT *, dense_rank() OVER (ORDER BY worst DESC, server) AS place
    FROM
    (
        SELECT *, max(excess) OVER (PARTITION BY server) AS worst
        FROM
        (
            SELECT server, number, work_s / nullIf(median(work_s) OVER (PARTITION BY stage), 0) - 1 AS excess
            FROM
            (
                SELECT m.server AS server, m.gpu AS number, any(m.pp_stage) AS stage, avg(g.compute_s - ifNull(g.idle_s, 0)) AS work_s
                FROM gpu_steps AS g
                INNER JOIN (SELECT endpoint, server, gpu, pp_stage FROM job_members WHERE job_id = f.1) AS m ON g.endpoint = m.endpoint
                WHERE g.job_id = f.1 AND g.step <= f.3 AND g.step IN (SELECT f.2 + number * intDiv(f.3 - f.2 + 100, 100) FROM numbers(100))
                GROUP BY server, number
            )
        )
    )
)
WHERE place <= 32
ORDER BY place, number

-- How much longer GPUs worked than their peers of the same stage while the finding lasted, by server and GPU: a hot cell
-- is a GPU, a hot row a server, a hot column a rail. Of the 32 servers that stand out most, over up to 100 steps.
WITH
    (
        SELECT (any(job_id), any(first_step), any(last_step), any(subject), any(JSONExtractString(evidence, 'last_ready')), any(start_time), any(end_time))
        FROM diagnoses
        WHERE diagnosis_id = ${finding:sqlstring}
    ) AS f,
    greatest(f.3 - f.2 + 1, 20)::Int64 AS width,
    picked AS
    (
        SELECT step
        FROM steps
        WHERE job_id = f.1 AND step BETWEEN f.2 AND f.3 AND step % greatest(intDiv(f.3 - f.2 + 100, 100), 1) = 0
        UNION DISTINCT
        SELECT f.2
    ),
    worked AS
    (
        SELECT m.server AS server, m.gpu AS gpu, any(m.pp_stage) AS stage, avg(g.compute_s + g.pp_s) AS work_s
        FROM gpu_steps AS g
        INNER JOIN (SELECT endpoint, server, gpu, pp_stage FROM job_members WHERE job_id = f.1) AS m ON g.endpoint = m.endpoint
        WHERE g.job_id = f.1 AND g.step IN (SELECT step FROM picked)
        GROUP BY server, gpu
    ),
    compared AS
    (
        SELECT server, gpu, work_s / nullIf(median(work_s) OVER (PARTITION BY stage), 0) - 1 AS excess
        FROM worked
    )
SELECT server AS "Server", concat('GPU ', toString(gpu)) AS "GPU", excess AS "Excess"
FROM compared
WHERE server IN (SELECT server FROM compared GROUP BY server ORDER BY max(excess) DESC, server LIMIT 32)
ORDER BY max(excess) OVER (PARTITION BY server) DESC, server, gpu

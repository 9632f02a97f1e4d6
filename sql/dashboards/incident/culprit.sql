-- How long the culprit worked in each step, against the middle, 10 % and 90 % of its peers of the same stage; in up to 300 steps
-- from before the incident until after it. Of several that it may be, the one that worked longest. What a GPU waited for is left
-- out where replays tell it, else it counts as work.
WITH
    $__of_incident AS f,
    g.compute_s - ifNull(g.idle_s, 0) AS work_s
SELECT
    max(g.end_time) AS time,
    nullIf(maxIf(work_s, m.is_named), 0) AS "Culprit",
    quantileExact(0.5)(work_s) AS "Peers",
    quantileExact(0.1)(work_s) AS "Peers, low",
    quantileExact(0.9)(work_s) AS "Peers, high"
FROM gpu_steps AS g
INNER JOIN
(
    SELECT
        endpoint,
        hasAny(f.4, [endpoint, server, concat('group ', toString(dp_group)), concat(job_id, '/stage/', toString(pp_stage))]) AS is_named,
        max(is_named) OVER (PARTITION BY pp_stage) OR NOT max(is_named) OVER () AS is_compared
    FROM job_members
    WHERE job_id = f.1
) AS m ON g.endpoint = m.endpoint
WHERE g.job_id = f.1 AND m.is_compared
    AND g.step <= f.8 AND g.step IN (SELECT f.7 + number * intDiv(f.8 - f.7 + 300, 300) FROM numbers(300))
GROUP BY g.step
ORDER BY time

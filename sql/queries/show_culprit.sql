-- Purpose: compare how long a culprit worked in each step with its peers of the same stage, for the report.
-- Parameters: job_id; blamed Array(String), endpoints or servers; first_step, last_step: of at most 300 steps between them.
-- Result: step; culprit_s, peers_s, the median, peers_low_s and peers_high_s, 10 and 90 %, of compute_s + pp_s, seconds; by step.
SELECT
    g.step AS step,
    maxIf(g.compute_s + g.pp_s, m.is_blamed) AS culprit_s,
    quantileExactIf(0.5)(g.compute_s + g.pp_s, NOT m.is_blamed) AS peers_s,
    quantileExactIf(0.1)(g.compute_s + g.pp_s, NOT m.is_blamed) AS peers_low_s,
    quantileExactIf(0.9)(g.compute_s + g.pp_s, NOT m.is_blamed) AS peers_high_s
FROM gpu_steps AS g
INNER JOIN
(
    SELECT
        endpoint,
        has({blamed:Array(String)}, endpoint) OR has({blamed:Array(String)}, server) AS is_blamed,
        max(is_blamed) OVER (PARTITION BY pp_stage) AS is_compared
    FROM job_members
    WHERE job_id = {job_id:String}
) AS m ON g.endpoint = m.endpoint
WHERE g.job_id = {job_id:String} AND m.is_compared AND g.step <= {last_step:UInt64}
    AND g.step IN
    (
        SELECT {first_step:UInt64} + number * intDiv({last_step:UInt64} - {first_step:UInt64} + 300, 300)
        FROM numbers(300)
    )
GROUP BY g.step
HAVING countIf(m.is_blamed) > 0 AND countIf(NOT m.is_blamed) > 0
ORDER BY step;

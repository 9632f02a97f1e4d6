-- What GPUs spent on training and what of it was lost, step by step: the accounts of losses over any span of time.

-- As in losses no second counts twice: a step with findings on it lost what it took beyond the job's usual step, to the one
-- cause that is nearest to the root; a job that stands still has no step yet to lose time in, and loses the time itself.
CREATE VIEW IF NOT EXISTS gpu_time
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step; of a standstill the one that did not end',
    start_time DateTime64(9) COMMENT 'Start of the step or standstill, UTC',
    end_time DateTime64(9) COMMENT 'End of it, UTC',
    cause LowCardinality(String) COMMENT 'Kind of the finding that it counts to, as in losses; empty where there is none',
    gpu_s Float64 COMMENT 'Its length over all GPUs of the job, GPU-seconds',
    lost_gpu_s Float64 COMMENT 'What of that was lost, GPU-seconds'
)
COMMENT 'GPU time of jobs and what of it was lost, one row a step or standstill'
AS
WITH
    [
        'restart', 'hang', 'stall', 'slow_gpu', 'slow_nic', 'slow_link', 'slow_switch', 'congestion', 'slow_group', 'slow_step'
    ] AS from_the_root,
    found AS
    (
        SELECT job_id, indexOf(from_the_root, kind::String) AS rank, first_step, last_step, start_time, end_time
        FROM diagnoses
        WHERE job_id != '' AND rank > 0
    ),
    causes AS
    (
        SELECT job_id, arrayJoin(range(first_step, last_step + 1)) AS step, min(rank) AS rank
        FROM found
        GROUP BY job_id, step
    ),
    usual AS
    (
        SELECT
            s.job_id AS job_id,
            max(s.step) AS last_step,
            quantileExactIf(0.5)(s.duration_s, s.complete = 1 AND c.rank = 0) AS healthy_s,
            if(isNaN(healthy_s), min(s.duration_s), healthy_s) AS usual_s
        FROM steps AS s
        LEFT JOIN causes AS c ON s.job_id = c.job_id AND s.step = c.step
        WHERE s.job_id IN (SELECT job_id FROM found)
        GROUP BY s.job_id
    )
SELECT
    s.job_id AS job_id,
    s.tenant AS tenant,
    s.step AS step,
    s.start_time AS start_time,
    s.end_time AS end_time,
    from_the_root[c.rank] AS cause,
    s.duration_s * j.endpoints AS gpu_s,
    if(c.rank = 0, 0, greatest(s.duration_s - u.usual_s, 0) * j.endpoints) AS lost_gpu_s
FROM steps AS s
INNER JOIN (SELECT job_id, endpoints FROM jobs) AS j ON s.job_id = j.job_id
LEFT JOIN causes AS c ON s.job_id = c.job_id AND s.step = c.step
LEFT JOIN usual AS u ON s.job_id = u.job_id
UNION ALL
SELECT
    f.job_id AS job_id,
    j.tenant AS tenant,
    f.first_step AS step,
    f.start_time AS start_time,
    f.end_time AS end_time,
    from_the_root[f.rank] AS cause,
    (toUnixTimestamp64Nano(f.end_time) - toUnixTimestamp64Nano(f.start_time)) / 1e9 * j.endpoints AS gpu_s,
    gpu_s AS lost_gpu_s
FROM found AS f
INNER JOIN (SELECT job_id, tenant, endpoints FROM jobs) AS j ON f.job_id = j.job_id
INNER JOIN usual AS u ON f.job_id = u.job_id
WHERE f.rank <= 3 AND f.first_step > u.last_step;

-- What GPUs spent on training and what of it was lost, over a span of time: the whole history of every job was read before,
-- for whatever span, to tell what is usual.

-- As in losses no second counts twice: a step with findings on it lost what it took beyond the job's usual step, to the one
-- cause that is nearest to the root; a job that stands still has no step yet to lose time in, and loses the time itself.
-- Usual is the median of the whole steps without findings from a day before the span until its end; of a job that has none,
-- the median of its latest steps. No step is longer than that day: the analysis looks back no further.
CREATE OR REPLACE VIEW gpu_time
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step; of a standstill the one that did not end',
    start_time DateTime64(9) COMMENT 'Start of the step or standstill, UTC',
    end_time DateTime64(9) COMMENT 'End of it, UTC',
    duration_s Float64 COMMENT 'From start to end, seconds',
    cause LowCardinality(String) COMMENT 'Kind of the finding that it counts to, as in losses; empty where there is none',
    gpu_s Float64 COMMENT 'Its length over all GPUs of the job, GPU-seconds',
    lost_gpu_s Float64 COMMENT 'What of that was lost, GPU-seconds; all of a standstill'
)
COMMENT 'GPU time of jobs and what of it was lost: gpu_time(from_time = ..., to_time = ...), one row a step or standstill that ended then'
AS
WITH
    toDateTime({from_time:DateTime('UTC')}, 'UTC') AS since,
    toDateTime({to_time:DateTime('UTC')}, 'UTC') AS until,
    [
        'restart', 'hang', 'stall', 'slow_gpu', 'slow_nic', 'slow_link', 'slow_switch', 'congestion', 'slow_group', 'slow_step'
    ] AS from_the_root,
    causes AS
    (
        SELECT
            job_id,
            arrayJoin(range(first_step, last_step + 1)) AS step,
            min(indexOf(from_the_root, kind::String)) AS rank,
            max((kind IN ('restart', 'hang', 'stall') AND step = first_step, start_time, end_time)) AS standstill
        FROM diagnoses
        WHERE job_id != '' AND has(from_the_root, kind::String) AND end_time >= since - INTERVAL 1 DAY AND start_time <= until
        GROUP BY job_id, step
    ),
    parts AS
    (
        SELECT
            if(s.job_id = '', c.job_id, s.job_id) AS job_id,
            s.job_id = '' AS is_standstill,
            if(is_standstill, c.step, s.step) AS step,
            c.rank AS rank,
            if(is_standstill, c.standstill.2, s.start_time) AS start_time,
            if(is_standstill, c.standstill.3, s.end_time) AS end_time,
            s.complete = 1 AND c.rank = 0 AS is_healthy,
            if(is_standstill, (toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time)) / 1e9, s.duration_s) AS duration_s
        FROM
        (
            SELECT job_id, step, start_time, end_time, duration_s, complete
            FROM steps
            WHERE start_time >= since - INTERVAL 1 DAY AND start_time <= until
        ) AS s
        FULL JOIN causes AS c ON s.job_id = c.job_id AND s.step = c.step
        WHERE s.job_id != '' OR c.standstill.1
    ),
    of_jobs AS
    (
        SELECT
            job_id,
            quantileExactIf(0.5)(duration_s, is_healthy) AS healthy_s,
            groupArrayIf(
                (step, start_time, end_time, duration_s, rank, is_standstill), end_time >= since AND end_time <= until
            ) AS shown
        FROM parts
        GROUP BY job_id
    )
SELECT
    o.job_id AS job_id,
    j.tenant AS tenant,
    part.1 AS step,
    part.2 AS start_time,
    part.3 AS end_time,
    part.4 AS duration_s,
    from_the_root[part.5] AS cause,
    duration_s * j.endpoints AS gpu_s,
    multiIf(
        part.6, gpu_s,
        part.5 = 0, 0,
        greatest(duration_s - if(isNaN(o.healthy_s), j.step_s_median, o.healthy_s), 0) * j.endpoints
    ) AS lost_gpu_s
FROM of_jobs AS o
INNER JOIN (SELECT job_id, tenant, endpoints, steps, step_s_median FROM jobs) AS j ON o.job_id = j.job_id
ARRAY JOIN o.shown AS part
WHERE NOT part.6 OR step >= j.steps;

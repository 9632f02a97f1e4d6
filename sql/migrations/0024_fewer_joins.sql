-- The same rows as before from fewer joins: which steps of a block count, and have a finding, is looked up in sets.

CREATE OR REPLACE VIEW gpu_time_by_cause
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step; of a standstill the one that did not end; of those without findings the last in the span',
    end_time DateTime64(9) COMMENT 'End of it, UTC',
    cause LowCardinality(String) COMMENT 'Kind of the finding that it counts to, as in losses; empty for all steps without one',
    gpu_s Float64 COMMENT 'Its length over all GPUs of the job, GPU-seconds',
    lost_gpu_s Float64 COMMENT 'What of that was lost, GPU-seconds; all of a standstill'
)
COMMENT 'GPU time of jobs and what of it was lost: gpu_time_by_cause(from_time = ..., to_time = ...), one row a job for its steps without findings that ended then, and one a step with findings, or standstill'
AS
WITH
    toDateTime({from_time:DateTime('UTC')}, 'UTC') AS since,
    toDateTime({to_time:DateTime('UTC')}, 'UTC') AS until,
    since - INTERVAL 1 DAY AS usual_since,
    [
        'restart', 'hang', 'stall', 'slow_gpu', 'slow_nic', 'slow_link', 'slow_switch', 'congestion', 'slow_group', 'slow_step'
    ] AS from_the_root,
    (
        SELECT groupArray((job_id, kind::String, first_step, last_step, start_time, end_time, slowdown))
        FROM diagnoses
        WHERE job_id != '' AND has(from_the_root, kind::String) AND end_time >= usual_since AND start_time <= until
    ) AS found,
    causes AS
    (
        SELECT
            job_id,
            arrayJoin(range(first_step, last_step + 1)) AS step,
            min(if(slowdown > 0, indexOf(from_the_root, kind), length(from_the_root) + 1)) AS rank,
            max(slowdown) AS share,
            max((kind IN ('restart', 'hang', 'stall') AND step = first_step, start_time, end_time)) AS standstill,
            0 AS is_sum
        FROM
        (
            SELECT one.1 AS job_id, one.2 AS kind, one.3 AS first_step, one.4 AS last_step, one.5 AS start_time, one.6 AS end_time, one.7 AS slowdown
            FROM (SELECT arrayJoin(found) AS one)
        )
        GROUP BY job_id, step
    ),
    -- A step is concerned if the findings that begin no later reach it.
    reaches AS
    (
        SELECT one.1 AS job_id, one.3 AS first_step, max(one.4) OVER (PARTITION BY one.1 ORDER BY one.3) AS reach
        FROM (SELECT arrayJoin(found) AS one)
    ),
    -- Blocks of which not all counts alike: their key, from which step on they don't count (0 if nobody published them), and
    -- their last step.
    (
        SELECT groupArray((l.job_id, l.first_step, l.revision, l.until_step, l.last_step))
        FROM
        (
            SELECT
                b.job_id AS job_id, b.first_step AS first_step, b.last_step AS last_step, b.revision AS revision,
                b.start_time AS start_time, b.end_time AS end_time, b.is_whole AS is_whole,
                multiIf(
                    b.revision NOT IN (SELECT revision FROM revisions WHERE job_id = ''), 0,
                    c.revision = 0, 18446744073709551615,
                    c.until_step
                ) AS until_step
            FROM step_blocks_log AS b
            ASOF LEFT JOIN revision_cuts AS c ON b.job_id = c.job_id AND b.revision < c.revision
            WHERE b.start_time >= toStartOfDay(usual_since, 'UTC') AND b.start_time <= until AND b.end_time >= usual_since
        ) AS l
        ASOF LEFT JOIN reaches AS r ON l.job_id = r.job_id AND l.last_step >= r.first_step
        WHERE NOT (
            l.is_whole AND l.last_step < l.until_step AND l.start_time >= usual_since AND l.end_time <= until
            AND (l.start_time >= since OR l.end_time < since) AND (r.job_id = '' OR r.reach < l.first_step)
        )
    ) AS others,
    single AS
    (
        SELECT
            job_id, step, end_at AS end_time, duration_s, whole AS complete,
            end_at >= since AND end_at <= until AS is_shown,
            (job_id, step) IN (SELECT one.1, arrayJoin(range(one.3, one.4 + 1)) FROM (SELECT arrayJoin(found) AS one)) AS is_concerned
        FROM
        (
            SELECT job_id, revision, steps, start_times, end_times, durations_s, complete
            FROM step_blocks_log
            WHERE (job_id, first_step, revision) IN (SELECT one.1, one.2, one.3 FROM (SELECT arrayJoin(others) AS one) WHERE one.2 < one.4)
        )
        ARRAY JOIN steps AS step, start_times AS start_at, end_times AS end_at, durations_s AS duration_s, complete AS whole
        WHERE start_at >= usual_since AND start_at <= until
            AND (job_id, revision, step) NOT IN
            (
                SELECT one.1, one.3, arrayJoin(range(one.4, one.5 + 1))
                FROM (SELECT arrayJoin(others) AS one)
                WHERE one.2 < one.4 AND one.4 <= one.5
            )
    ),
    of_jobs AS
    (
        SELECT
            job_id,
            quantileExactArray(0.5)(healthy) AS healthy_s,
            arrayPushFront(
                groupArrayArray(p.slow),
                (max(p.shown_step), max(p.shown_end), sum(round(p.shown_s * 1e9)::Int64) / 1e9, 1)
            ) AS shown
        FROM
        (
            SELECT
                job_id,
                durations_s AS healthy,
                if(start_time >= since, last_step, 0) AS shown_step,
                if(start_time >= since, end_time, toDateTime64(0, 9)) AS shown_end,
                if(start_time >= since, taken_s, 0) AS shown_s,
                []::Array(Tuple(UInt64, DateTime64(9), Float64, UInt8)) AS slow
            FROM step_blocks_log
            WHERE start_time >= toStartOfDay(usual_since, 'UTC') AND start_time <= until AND end_time >= usual_since
                AND revision IN (SELECT revision FROM revisions WHERE job_id = '')
                AND (job_id, first_step, revision) NOT IN (SELECT one.1, one.2, one.3 FROM (SELECT arrayJoin(others) AS one))
            UNION ALL
            SELECT
                job_id,
                if(complete = 1 AND NOT is_concerned, [duration_s], []),
                if(is_shown AND NOT is_concerned, step, 0),
                if(is_shown AND NOT is_concerned, end_time, toDateTime64(0, 9)),
                if(is_shown AND NOT is_concerned, duration_s, 0),
                if(is_concerned, [(step, end_time, duration_s, 0)], [])
            FROM single
        ) AS p
        GROUP BY job_id
    ),
    parts AS
    (
        SELECT
            if(s.job_id = '', c.job_id, s.job_id) AS job_id,
            s.job_id = '' AS is_standstill,
            if(is_standstill, c.step, s.step) AS step,
            if(is_standstill, c.standstill.3, s.end_time) AS end_time,
            if(is_standstill, toUnixTimestamp64Nano(c.standstill.3) - toUnixTimestamp64Nano(c.standstill.2), 0) / 1e9 AS stood_s,
            s.healthy_s AS healthy_s,
            s.duration_s AS duration_s,
            c.rank AS rank,
            c.share AS share
        FROM
        (
            SELECT job_id, healthy_s, one.1 AS step, one.2 AS end_time, one.3 AS duration_s, one.4 AS is_sum
            FROM of_jobs
            ARRAY JOIN shown AS one
        ) AS s
        FULL JOIN causes AS c ON s.job_id = c.job_id AND s.step = c.step AND s.is_sum = c.is_sum
        WHERE s.job_id != '' OR c.standstill.1
    )
SELECT
    p.job_id AS job_id,
    j.tenant AS tenant,
    p.step AS step,
    p.end_time AS end_time,
    from_the_root[p.rank] AS cause,
    if(p.is_standstill, p.stood_s, p.duration_s) * j.endpoints AS gpu_s,
    multiIf(
        p.is_standstill, gpu_s,
        cause = '', 0,
        isNaN(p.healthy_s), p.duration_s * p.share * j.endpoints,
        greatest(p.duration_s - p.healthy_s, 0) * j.endpoints
    ) AS lost_gpu_s
FROM parts AS p
INNER JOIN (SELECT job_id, tenant, endpoints, steps FROM jobs) AS j ON p.job_id = j.job_id
WHERE p.end_time >= since AND p.end_time <= until AND (NOT p.is_standstill OR step >= j.steps);

-- Steps packed by the working that wrote them: what is asked about weeks reads a row a window and job, not one a step.

CREATE TABLE IF NOT EXISTS step_blocks_log
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of the working that wrote the steps' CODEC(Delta, ZSTD(1)),
    tenant String COMMENT 'Tenant of the job',
    first_step UInt64 COMMENT 'Number of its first step' CODEC(Delta, ZSTD(1)),
    last_step UInt64 COMMENT 'Number of its last step' CODEC(Delta, ZSTD(1)),
    start_time DateTime64(9) COMMENT 'Earliest start of its steps, all of which start on one day, UTC' CODEC(Delta, ZSTD(1)),
    end_time DateTime64(9) COMMENT 'Latest end of its steps, UTC' CODEC(Delta, ZSTD(1)),
    taken_s Float64 COMMENT 'Time of its steps, seconds',
    is_whole UInt8 COMMENT '1 where each of its steps was seen from its beginning',
    steps Array(UInt64) COMMENT 'Numbers of its steps, in order' CODEC(Delta, ZSTD(1)),
    start_times Array(DateTime64(9)) COMMENT 'Start of each, UTC' CODEC(Delta, ZSTD(1)),
    end_times Array(DateTime64(9)) COMMENT 'End of each, UTC' CODEC(Delta, ZSTD(1)),
    durations_s Array(Float64) COMMENT 'Length of each, seconds' CODEC(LZ4),
    complete Array(UInt8) COMMENT '1 for each that was seen from its beginning, else 0' CODEC(ZSTD(1)),
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(start_time, 'UTC')
ORDER BY (job_id, first_step, revision)
SETTINGS index_granularity = 128, non_replicated_deduplication_window = 100
COMMENT 'The steps of a job that one working wrote and that start on one day, packed into one row; steps_log has a row for each';

CREATE MATERIALIZED VIEW IF NOT EXISTS step_blocks_mv TO step_blocks_log AS
WITH arraySort(groupArray((l.step, l.start_time, l.end_time, l.duration_s, l.complete))) AS packed
SELECT
    l.job_id AS job_id,
    l.revision AS revision,
    l.tenant AS tenant,
    min(l.step) AS first_step,
    max(l.step) AS last_step,
    min(l.start_time) AS start_time,
    max(l.end_time) AS end_time,
    sum(round(l.duration_s * 1e9)::Int64) / 1e9 AS taken_s,
    min(l.complete) AS is_whole,
    packed.1 AS steps,
    packed.2 AS start_times,
    packed.3 AS end_times,
    packed.4 AS durations_s,
    packed.5 AS complete
FROM steps_log AS l
GROUP BY l.job_id, l.revision, l.tenant, toDate(l.start_time, 'UTC');

-- Those that were written before. Broken off, it goes on where it was.
INSERT INTO step_blocks_log
    (job_id, revision, tenant, first_step, last_step, start_time, end_time, taken_s, is_whole, steps, start_times, end_times,
     durations_s, complete, written_at)
WITH arraySort(groupArray((l.step, l.start_time, l.end_time, l.duration_s, l.complete))) AS packed
SELECT
    l.job_id, l.revision, l.tenant, min(l.step), max(l.step), min(l.start_time), max(l.end_time),
    sum(round(l.duration_s * 1e9)::Int64) / 1e9, min(l.complete),
    packed.1, packed.2, packed.3, packed.4, packed.5, max(l.written_at)
FROM steps_log AS l
WHERE (l.job_id, l.revision, toDate(l.start_time, 'UTC')) NOT IN (SELECT job_id, revision, toDate(start_time, 'UTC') FROM step_blocks_log)
GROUP BY l.job_id, l.revision, l.tenant, toDate(l.start_time, 'UTC')
SETTINGS max_partitions_per_insert_block = 0;

-- As revisions are cut where a later one replaces their steps, blocks are too.
CREATE VIEW IF NOT EXISTS step_blocks
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of the working that wrote the steps',
    tenant String COMMENT 'Tenant of the job',
    first_step UInt64 COMMENT 'Number of its first step',
    last_step UInt64 COMMENT 'Number of its last step, replaced ones too',
    until_step UInt64 COMMENT 'Those of its steps count that come before this one; later ones were replaced',
    start_time DateTime64(9) COMMENT 'Earliest start of its steps, all of which start on one day, UTC',
    end_time DateTime64(9) COMMENT 'Latest end of its steps, UTC',
    taken_s Float64 COMMENT 'Time of its steps, seconds',
    is_whole UInt8 COMMENT '1 where each of its steps was seen from its beginning',
    steps Array(UInt64) COMMENT 'Numbers of its steps, in order',
    start_times Array(DateTime64(9)) COMMENT 'Start of each, UTC',
    end_times Array(DateTime64(9)) COMMENT 'End of each, UTC',
    durations_s Array(Float64) COMMENT 'Length of each, seconds',
    complete Array(UInt8) COMMENT '1 for each that was seen from its beginning, else 0'
)
COMMENT 'Steps of a job that lie close together, packed into one row'
AS
SELECT
    l.job_id, l.revision, l.tenant, l.first_step, l.last_step,
    if(c.revision = 0, 18446744073709551615, c.until_step) AS until_step,
    l.start_time, l.end_time, l.taken_s, l.is_whole, l.steps, l.start_times, l.end_times, l.durations_s, l.complete
FROM step_blocks_log AS l
ASOF LEFT JOIN revision_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.first_step < c.until_step) AND l.revision IN (SELECT revision FROM published);

-- The same as gpu_time, with a row for all steps of a job without findings. They are the most, and few of them are looked at:
-- blocks of which all count, on which there is no finding, count whole; the steps of the others one by one.
CREATE VIEW IF NOT EXISTS gpu_time_by_cause
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

CREATE VIEW IF NOT EXISTS dead_blocks
(
    job_id String COMMENT 'The job',
    first_step UInt64 COMMENT 'Number of its first step',
    revision UInt64 COMMENT 'Number of a working that wrote its steps, all of which were replaced'
)
COMMENT 'Blocks of steps that nobody will read again'
AS
SELECT l.job_id AS job_id, l.first_step AS first_step, l.revision AS revision
FROM step_blocks_log AS l
ASOF INNER JOIN final_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE l.first_step >= c.until_step;

-- As before, but a row that cuts stays while a block reaches beyond where it cuts: some steps of that block still count.
CREATE OR REPLACE VIEW dead_revisions
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of a working'
)
COMMENT 'Rows of revisions that nobody will need again, once the other dead rows are deleted'
AS
WITH still_cutting AS
(
    SELECT job_id, revision
    FROM
    (
        SELECT
            job_id, revision, is_block, step,
            max(if(is_block, step, 0)) OVER (PARTITION BY job_id ORDER BY revision, is_block ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS reached
        FROM
        (
            SELECT job_id, revision, 0 AS is_block, from_step AS step FROM revisions WHERE cuts
            UNION ALL
            SELECT job_id, revision, 1, last_step + 1 FROM step_blocks_log
        )
    )
    WHERE NOT is_block AND reached > step
)
SELECT r.job_id AS job_id, r.revision AS revision
FROM revisions AS r
INNER JOIN final_revisions AS f ON r.job_id = f.job_id
WHERE r.job_id != ''
    AND r.revision < f.revision
    AND (NOT r.cuts OR r.window_start <= (SELECT pruned_until FROM prune_horizon))
    AND (r.job_id, r.revision) NOT IN (SELECT job_id, revision FROM still_cutting);

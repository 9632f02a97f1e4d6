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
ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.first_step < c.until_step) AND l.revision IN (SELECT revision FROM {published});

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

-- How long ranks wait for others, and what steps would have taken without what slows them, by a replay of their execution graph.

ALTER TABLE gpu_steps_log ADD COLUMN IF NOT EXISTS idle_s Nullable(Float64) COMMENT 'Of compute_s, waiting for others, seconds; NULL where it is not known';

ALTER TABLE gpu_steps_log ADD COLUMN IF NOT EXISTS bubble_s Nullable(Float64) COMMENT 'Of idle_s, what the schedule leaves idle, seconds; NULL where it is not known';

CREATE OR REPLACE VIEW gpu_steps
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    endpoint String COMMENT 'Address of the NIC',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen of the job',
    start_time DateTime64(9) COMMENT 'End of the step before it on this endpoint, UTC',
    end_time DateTime64(9) COMMENT 'End of the last flow of its closing burst, UTC',
    duration_s Float64 COMMENT 'From start to end, seconds',
    compute_s Float64 COMMENT 'Time without network phases, seconds',
    pp_s Float64 COMMENT 'Time in pipeline phases, seconds',
    dp_s Float64 COMMENT 'Time in data-parallel phases, seconds',
    complete UInt8 COMMENT '1 where the whole step was seen, 0 where its beginning was not',
    idle_s Nullable(Float64) COMMENT 'Of compute_s, waiting for others, seconds; NULL where it is not known',
    bubble_s Nullable(Float64) COMMENT 'Of idle_s, what the schedule leaves idle, seconds; NULL where it is not known'
)
COMMENT 'Training steps of endpoints, one row an endpoint and step'
AS
SELECT
    l.job_id, l.tenant, l.endpoint, l.step, l.start_time, l.end_time,
    l.duration_s, l.compute_s, l.pp_s, l.dp_s, l.complete, l.idle_s, l.bubble_s
FROM gpu_steps_log AS l
ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.step < c.until_step) AND l.revision IN (SELECT revision FROM {published});

CREATE TABLE IF NOT EXISTS what_if_log
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of the working that wrote the row' CODEC(Delta, ZSTD(1)),
    tenant String COMMENT 'Tenant of the job',
    incident_id String COMMENT 'The incident that is taken out; empty where stragglers are',
    `without` String COMMENT 'What is taken out: the subject of a finding, stragglers, or the worst few of them',
    step UInt64 COMMENT 'Number of the first step replayed' CODEC(Delta, ZSTD(1)),
    last_step UInt64 COMMENT 'Number of the last step replayed' CODEC(Delta, ZSTD(1)),
    actual_s Float64 COMMENT 'What the steps took together, seconds',
    replayed_s Float64 COMMENT 'What they take in a replay with nothing changed, seconds',
    without_s Float64 COMMENT 'What they take in a replay without it, seconds',
    saved_gpu_h Float64 COMMENT 'The difference of the two replays over all GPUs, GPU-hours',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(written_at)
ORDER BY (job_id, step, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Replays of steps, one row a job, cause, working and stretch of steps; read it as what_if';

CREATE VIEW IF NOT EXISTS what_if
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    incident_id String COMMENT 'The incident that is taken out; empty where stragglers are',
    `without` String COMMENT 'What is taken out: the subject of a finding, stragglers, or the worst few of them',
    first_step UInt64 COMMENT 'Number of the first step replayed',
    last_step UInt64 COMMENT 'Number of the last step replayed',
    actual_s Float64 COMMENT 'What the steps took together, seconds',
    replayed_s Float64 COMMENT 'What they take in a replay with nothing changed, seconds',
    without_s Float64 COMMENT 'What they take in a replay without it, seconds',
    saved_gpu_h Float64 COMMENT 'The difference of the two replays over all GPUs, GPU-hours'
)
COMMENT 'What steps would have taken without what slowed them, one row a job, cause and stretch of steps'
AS
SELECT
    l.job_id, l.tenant, l.incident_id, l.`without`, l.step AS first_step, l.last_step,
    l.actual_s, l.replayed_s, l.without_s, l.saved_gpu_h
FROM what_if_log AS l
ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.step < c.until_step) AND l.revision IN (SELECT revision FROM {published});

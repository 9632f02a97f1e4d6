-- Training steps of jobs and of single GPUs, and the phases inside them. A revision holds the steps from its from_step on;
-- the views show of each revision the steps that no later one replaced.

CREATE TABLE IF NOT EXISTS steps_log
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of the working that wrote the row' CODEC(Delta, ZSTD(1)),
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen' CODEC(Delta, ZSTD(1)),
    start_time DateTime64(9) COMMENT 'End of the step before it; of the first its earliest start over endpoints, UTC' CODEC(Delta, ZSTD(1)),
    end_time DateTime64(9) COMMENT 'Latest end over its endpoints, UTC' CODEC(Delta, ZSTD(1)),
    duration_s Float64 COMMENT 'From start to end, seconds',
    compute_s Float64 COMMENT 'Time without network phases, mean over endpoints, seconds',
    pp_s Float64 COMMENT 'Time in pipeline phases, mean over endpoints, seconds',
    dp_s Float64 COMMENT 'Time in data-parallel phases, mean over endpoints, seconds',
    slowest_endpoint String COMMENT 'Address of the endpoint that kept the others waiting, empty where records tell no single one',
    slowest_endpoints Array(String) COMMENT 'Addresses of those that kept the others waiting and can not be told apart; empty where nobody did',
    complete UInt8 COMMENT '1 where the whole step was seen, 0 where its beginning was not',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(start_time, 'UTC')
ORDER BY (job_id, step, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Training steps, one row a step and revision; read it as steps';

CREATE VIEW IF NOT EXISTS steps
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen',
    start_time DateTime64(9) COMMENT 'End of the step before it; of the first its earliest start over endpoints, UTC',
    end_time DateTime64(9) COMMENT 'Latest end over its endpoints, UTC',
    duration_s Float64 COMMENT 'From start to end, seconds',
    compute_s Float64 COMMENT 'Time without network phases, mean over endpoints, seconds',
    pp_s Float64 COMMENT 'Time in pipeline phases, mean over endpoints, seconds',
    dp_s Float64 COMMENT 'Time in data-parallel phases, mean over endpoints, seconds',
    slowest_endpoint String COMMENT 'Address of the endpoint that kept the others waiting, empty where records tell no single one',
    slowest_endpoints Array(String) COMMENT 'Addresses of those that kept the others waiting and can not be told apart; empty where nobody did',
    complete UInt8 COMMENT '1 where the whole step was seen, 0 where its beginning was not'
)
COMMENT 'Training steps, one row a job and step'
AS
SELECT
    l.job_id, l.tenant, l.step, l.start_time, l.end_time,
    l.duration_s, l.compute_s, l.pp_s, l.dp_s, l.slowest_endpoint, l.slowest_endpoints, l.complete
FROM steps_log AS l
ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.step < c.until_step) AND l.revision IN (SELECT revision FROM {published});

CREATE TABLE IF NOT EXISTS gpu_steps_log
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of the working that wrote the row' CODEC(Delta, ZSTD(1)),
    tenant String COMMENT 'Tenant of the job',
    endpoint String COMMENT 'Address of the NIC',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen of the job' CODEC(Delta, ZSTD(1)),
    start_time DateTime64(9) COMMENT 'End of the step before it on this endpoint, UTC' CODEC(Delta, ZSTD(1)),
    end_time DateTime64(9) COMMENT 'End of the last flow of its closing burst, UTC' CODEC(Delta, ZSTD(1)),
    duration_s Float64 COMMENT 'From start to end, seconds',
    compute_s Float64 COMMENT 'Time without network phases, seconds',
    pp_s Float64 COMMENT 'Time in pipeline phases, seconds',
    dp_s Float64 COMMENT 'Time in data-parallel phases, seconds',
    complete UInt8 COMMENT '1 where the whole step was seen, 0 where its beginning was not',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(start_time, 'UTC')
ORDER BY (job_id, step, endpoint, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Training steps of endpoints, one row an endpoint, step and revision; read it as gpu_steps';

CREATE VIEW IF NOT EXISTS gpu_steps
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
    complete UInt8 COMMENT '1 where the whole step was seen, 0 where its beginning was not'
)
COMMENT 'Training steps of endpoints, one row an endpoint and step'
AS
SELECT
    l.job_id, l.tenant, l.endpoint, l.step, l.start_time, l.end_time,
    l.duration_s, l.compute_s, l.pp_s, l.dp_s, l.complete
FROM gpu_steps_log AS l
ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.step < c.until_step) AND l.revision IN (SELECT revision FROM {published});

-- One row a step: its phases as arrays. They tile the step, so lengths are enough; a row a phase would take three rows a flow.
CREATE TABLE IF NOT EXISTS timeline_log
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of the working that wrote the row' CODEC(Delta, ZSTD(1)),
    endpoint String COMMENT 'Address of the NIC',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen of the job' CODEC(Delta, ZSTD(1)),
    start_time DateTime64(9) COMMENT 'Start of the step and of its first phase, UTC' CODEC(Delta, ZSTD(1)),
    phases Array(Enum8('compute' = 1, 'PP' = 2, 'DP' = 3, 'EP' = 4, 'CP' = 5, 'TP' = 6)) COMMENT 'What the endpoint was doing, in order' CODEC(ZSTD(1)),
    lengths_ns Array(UInt64) COMMENT 'How long each phase took, nanoseconds' CODEC(ZSTD(1)),
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC',
    INDEX start_time_range start_time TYPE minmax
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(start_time, 'UTC')
ORDER BY (job_id, step, endpoint, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Phases of steps, one row an endpoint, step and revision; read it as timeline';

CREATE VIEW IF NOT EXISTS timeline
(
    job_id String COMMENT 'The job',
    endpoint String COMMENT 'Address of the NIC',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen of the job',
    phase Enum8('compute' = 1, 'PP' = 2, 'DP' = 3, 'EP' = 4, 'CP' = 5, 'TP' = 6) COMMENT 'What the endpoint was doing',
    start_time DateTime64(9) COMMENT 'Start of the phase, the end of the one before it, UTC',
    end_time DateTime64(9) COMMENT 'End of the phase, UTC'
)
COMMENT 'Phases of steps, one row an endpoint and phase'
AS
SELECT
    job_id,
    endpoint,
    step,
    phase,
    fromUnixTimestamp64Nano(toInt64(begin_ns + until_ns - length_ns)) AS start_time,
    fromUnixTimestamp64Nano(toInt64(begin_ns + until_ns)) AS end_time
FROM
(
    SELECT
        l.job_id AS job_id,
        l.endpoint AS endpoint,
        l.step AS step,
        toUnixTimestamp64Nano(l.start_time) AS begin_ns,
        l.phases AS phases,
        l.lengths_ns AS lengths_ns
    FROM timeline_log AS l
    ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
    WHERE (c.revision = 0 OR l.step < c.until_step) AND l.revision IN (SELECT revision FROM {published})
)
ARRAY JOIN phases AS phase, lengths_ns AS length_ns, arrayCumSum(lengths_ns) AS until_ns;

CREATE VIEW IF NOT EXISTS job_timeline
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen',
    start_time DateTime64(9) COMMENT 'Start of the step, UTC',
    end_time DateTime64(9) COMMENT 'End of the step, UTC',
    phase LowCardinality(String) COMMENT 'compute, PP or DP, as in timeline; other is what is none of them',
    phase_s Float64 COMMENT 'Time in that phase, mean over its endpoints, seconds',
    share Float64 COMMENT 'Part of the step, 0 to 1'
)
COMMENT 'How the time of each step divides into phases, one row a job, step and phase'
AS
SELECT
    job_id,
    tenant,
    step,
    start_time,
    end_time,
    part.1 AS phase,
    part.2 AS phase_s,
    if(duration_s > 0, part.2 / duration_s, 0) AS share
FROM steps
ARRAY JOIN
    [
        ('compute', compute_s),
        ('PP', pp_s),
        ('DP', dp_s),
        ('other', greatest(duration_s - compute_s - pp_s - dp_s, 0))
    ] AS part;

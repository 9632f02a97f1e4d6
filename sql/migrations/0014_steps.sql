-- Training steps, of jobs and of single GPUs. A revision holds the steps from its from_step on.

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
    slowest_endpoint String COMMENT 'Address of the endpoint that was ready latest, against what is usual for it',
    complete UInt8 COMMENT '1 where the whole step was seen, 0 where its beginning was not',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(start_time, 'UTC')
ORDER BY (job_id, step, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Training steps, one row a step and revision; read it as steps';

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

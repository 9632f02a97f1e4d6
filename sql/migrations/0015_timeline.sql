-- Phases inside the steps of every endpoint. A revision holds those of the steps from its from_step on.

-- One row a step: its phases as arrays. They tile the step, so lengths say it all; a row a phase would take three rows a flow.
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

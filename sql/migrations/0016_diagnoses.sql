-- Findings. A revision holds those that it opened or changed.

CREATE TABLE IF NOT EXISTS diagnoses_log
(
    job_id String COMMENT 'The job; empty where the finding concerns a switch or an exporter',
    revision UInt64 COMMENT 'Number of the working that wrote the row',
    diagnosis_id String COMMENT 'Identity of the finding while it lasts',
    tenant String COMMENT 'Tenant of the job; empty where there is no single one',
    kind Enum8(
        'slow_step' = 1, 'slow_group' = 2, 'slow_switch' = 3, 'slow_gpu' = 4, 'slow_nic' = 5, 'slow_link' = 6,
        'congestion' = 7, 'stall' = 8, 'hang' = 9, 'restart' = 10, 'imbalance' = 11, 'telemetry' = 12
    ) COMMENT 'What is wrong',
    subject_type Enum8(
        'job' = 1, 'group' = 2, 'endpoint' = 3, 'server' = 4, 'switch' = 5, 'link' = 6, 'exporter' = 7
    ) COMMENT 'What kind of thing it is about',
    subject String COMMENT 'Which one; a link is a->b',
    first_step UInt64 COMMENT 'First step concerned',
    last_step UInt64 COMMENT 'Last step concerned so far',
    start_time DateTime64(9) COMMENT 'When it began, UTC',
    end_time DateTime64(9) COMMENT 'When it ended or was last seen, UTC',
    status Enum8('open' = 1, 'closed' = 2) COMMENT 'Whether it still lasts',
    severity Enum8('info' = 1, 'warning' = 2, 'critical' = 3) COMMENT 'How much it matters',
    observed Float64 COMMENT 'What was measured: seconds for steps, groups and GPUs, bytes per second for switches and links',
    expected Float64 COMMENT 'What it should have been, in the unit of observed',
    score Float64 COMMENT 'Distance of the two, robust standard deviations',
    slowdown Float64 COMMENT 'Share of the job''s time lost while it lasts, 0 to 1',
    summary String COMMENT 'One sentence a person can act on',
    evidence String COMMENT 'What it rests on, JSON',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(written_at)
ORDER BY (job_id, diagnosis_id, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Findings, one row a finding and revision that changed it; read it as diagnoses';

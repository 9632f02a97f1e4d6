-- Jobs and who is in them. Each revision holds these whole, so that readers take the latest one of each job.

CREATE TABLE IF NOT EXISTS jobs_log
(
    job_id String COMMENT 'Identity of the job for its whole life',
    revision UInt64 COMMENT 'Number of the working that wrote the row',
    tenant String COMMENT 'Tenant of its endpoints; empty where the topology names none',
    status Enum8('running' = 1, 'stalled' = 2, 'ended' = 3) COMMENT 'What the job was doing when last looked at',
    first_seen DateTime64(9) COMMENT 'Start of its first flow, UTC',
    last_seen DateTime64(9) COMMENT 'End of its last flow, UTC',
    endpoints UInt32 COMMENT 'Endpoints in it, one a GPU, count',
    servers UInt32 COMMENT 'Servers in it, count',
    dp_size UInt32 COMMENT 'Endpoints in a data-parallel group, count',
    pp_size UInt32 COMMENT 'Pipeline stages, count',
    steps UInt64 COMMENT 'Training steps seen so far, count',
    step_s_median Float64 COMMENT 'Median duration of its steps, seconds',
    profile String COMMENT 'What the analysis remembers of the job, JSON; internal',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(written_at)
ORDER BY (job_id, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Training jobs, one row a job and revision; read it as jobs';

CREATE TABLE IF NOT EXISTS job_members_log
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of the working that wrote the row',
    endpoint String COMMENT 'Address of the NIC',
    server String COMMENT 'Server it sits in',
    gpu UInt8 COMMENT 'Index of its GPU in the server, from 0',
    dp_group UInt32 COMMENT 'group_id of its data-parallel group',
    pp_stage UInt32 COMMENT 'Pipeline stage, 0 is the first',
    first_seen DateTime64(9) COMMENT 'Start of its first flow in the job, UTC',
    last_seen DateTime64(9) COMMENT 'End of its last flow in the job, UTC',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(written_at)
ORDER BY (job_id, revision, endpoint)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Endpoints of jobs, one row an endpoint and revision; read it as job_members';

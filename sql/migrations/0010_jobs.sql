-- Jobs, who is in them, and who talks to whom for what. Each revision holds these whole: readers take the latest of each job.

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
    memory String COMMENT 'What the analysis remembers of the job, JSON; internal',
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

CREATE TABLE IF NOT EXISTS pairs_log
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of the working that wrote the row',
    src_addr String COMMENT 'Address of the sending NIC',
    dst_addr String COMMENT 'Address of the receiving NIC',
    kind Enum8('DP' = 1, 'PP' = 2, 'EP' = 3, 'CP' = 4, 'TP' = 5, 'other' = 6) COMMENT 'Parallelism that the pair serves',
    confidence Float64 COMMENT 'How sure that is, 0 to 1',
    flows UInt64 COMMENT 'Flow records of the pair so far, exact repeats folded, count',
    bytes UInt64 COMMENT 'Bytes of the pair so far',
    first_seen DateTime64(9) COMMENT 'Start of its first flow, UTC',
    last_seen DateTime64(9) COMMENT 'End of its last flow, UTC',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(written_at)
ORDER BY (job_id, revision, src_addr, dst_addr)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Directed pairs of endpoints, one row a pair and revision; read it as pairs';

CREATE TABLE IF NOT EXISTS groups_log
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of the working that wrote the row',
    group_id UInt32 COMMENT 'Number of the group in the job',
    kind Enum8('DP' = 1, 'PP' = 2, 'EP' = 3, 'CP' = 4, 'TP' = 5) COMMENT 'Parallelism that the group serves',
    pp_stage UInt32 COMMENT 'Pipeline stage of its members, 0 is the first; 0 for a PP group',
    members Array(String) COMMENT 'Addresses of its endpoints, sorted; of a PP group in stage order',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(written_at)
ORDER BY (job_id, revision, group_id)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Communicators as the network shows them, one row a group and revision; read it as groups';

CREATE VIEW IF NOT EXISTS jobs
(
    job_id String COMMENT 'Identity of the job for its whole life',
    tenant String COMMENT 'Tenant of its endpoints; empty where the topology names none',
    status Enum8('running' = 1, 'stalled' = 2, 'ended' = 3) COMMENT 'What the job was doing when last looked at',
    first_seen DateTime64(9) COMMENT 'Start of its first flow, UTC',
    last_seen DateTime64(9) COMMENT 'End of its last flow, UTC',
    endpoints UInt32 COMMENT 'Endpoints in it, one a GPU, count',
    servers UInt32 COMMENT 'Servers in it, count',
    dp_size UInt32 COMMENT 'Endpoints in a data-parallel group, count',
    pp_size UInt32 COMMENT 'Pipeline stages, count',
    steps UInt64 COMMENT 'Training steps seen so far, count',
    step_s_median Float64 COMMENT 'Median duration of its steps, seconds'
)
COMMENT 'Training jobs, one row each'
AS
SELECT
    job_id, tenant, status, first_seen, last_seen, endpoints, servers, dp_size, pp_size, steps, step_s_median
FROM jobs_log
WHERE (job_id, revision) IN (SELECT job_id, max(revision) FROM revisions GROUP BY job_id);

CREATE VIEW IF NOT EXISTS job_members
(
    job_id String COMMENT 'The job',
    endpoint String COMMENT 'Address of the NIC',
    server String COMMENT 'Server it sits in',
    gpu UInt8 COMMENT 'Index of its GPU in the server, from 0',
    dp_group UInt32 COMMENT 'group_id of its data-parallel group',
    pp_stage UInt32 COMMENT 'Pipeline stage, 0 is the first',
    first_seen DateTime64(9) COMMENT 'Start of its first flow in the job, UTC',
    last_seen DateTime64(9) COMMENT 'End of its last flow in the job, UTC'
)
COMMENT 'Endpoints of jobs, one row an endpoint'
AS
SELECT job_id, endpoint, server, gpu, dp_group, pp_stage, first_seen, last_seen
FROM job_members_log
WHERE (job_id, revision) IN (SELECT job_id, max(revision) FROM revisions GROUP BY job_id);

CREATE VIEW IF NOT EXISTS pairs
(
    job_id String COMMENT 'The job',
    src_addr String COMMENT 'Address of the sending NIC',
    dst_addr String COMMENT 'Address of the receiving NIC',
    kind Enum8('DP' = 1, 'PP' = 2, 'EP' = 3, 'CP' = 4, 'TP' = 5, 'other' = 6) COMMENT 'Parallelism that the pair serves',
    confidence Float64 COMMENT 'How sure that is, 0 to 1',
    flows UInt64 COMMENT 'Flow records of the pair so far, exact repeats folded, count',
    bytes UInt64 COMMENT 'Bytes of the pair so far',
    first_seen DateTime64(9) COMMENT 'Start of its first flow, UTC',
    last_seen DateTime64(9) COMMENT 'End of its last flow, UTC'
)
COMMENT 'Directed pairs of endpoints of a job, one row each'
AS
SELECT job_id, src_addr, dst_addr, kind, confidence, flows, bytes, first_seen, last_seen
FROM pairs_log
WHERE (job_id, revision) IN (SELECT job_id, max(revision) FROM revisions GROUP BY job_id);

CREATE VIEW IF NOT EXISTS groups
(
    job_id String COMMENT 'The job',
    group_id UInt32 COMMENT 'Number of the group in the job',
    kind Enum8('DP' = 1, 'PP' = 2, 'EP' = 3, 'CP' = 4, 'TP' = 5) COMMENT 'Parallelism that the group serves',
    pp_stage UInt32 COMMENT 'Pipeline stage of its members, 0 is the first; 0 for a PP group',
    members Array(String) COMMENT 'Addresses of its endpoints, sorted; of a PP group in stage order'
)
COMMENT 'Communicators as the network shows them, one row a group'
AS
SELECT job_id, group_id, kind, pp_stage, members
FROM groups_log
WHERE (job_id, revision) IN (SELECT job_id, max(revision) FROM revisions GROUP BY job_id);

-- The public names of what is known of jobs: the rows of each job's latest published revision.

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
    step_s_median Float64 COMMENT 'Median duration of its steps, seconds',
    profile String COMMENT 'What the analysis remembers of the job, JSON; internal'
)
COMMENT 'Training jobs, one row each'
AS
SELECT
    job_id, tenant, status, first_seen, last_seen, endpoints, servers, dp_size, pp_size, steps, step_s_median, profile
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

-- Who talks to whom in a job, and for what. Each revision holds these whole.

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

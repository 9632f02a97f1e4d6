-- Which ways flows took between two endpoints, by minute, and how evenly a job's traffic spreads over those between leaves.

CREATE TABLE IF NOT EXISTS flow_way_1m_log
(
    minute DateTime('UTC') COMMENT 'Minute in which the flows ended, UTC',
    src_addr LowCardinality(String) COMMENT 'Address of the sending NIC',
    dst_addr LowCardinality(String) COMMENT 'Address of the receiving NIC',
    way Array(LowCardinality(String)) COMMENT 'Switches the flows crossed, in order',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    busy_ns UInt64 COMMENT 'How long the flows lasted, added up, nanoseconds',
    written_at SimpleAggregateFunction(max, DateTime('UTC')) DEFAULT now() COMMENT 'When the last part of the row was written, UTC'
)
ENGINE = SummingMergeTree((flows, bytes, busy_ns))
PARTITION BY toYYYYMM(minute)
ORDER BY (minute, src_addr, dst_addr, way, sampler_address)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Ways of directed pairs by minute and exporter, in part sums; read it as flow_way_1m';

-- Records without a path have no part in it.
CREATE MATERIALIZED VIEW IF NOT EXISTS flow_way_1m_mv TO flow_way_1m_log
AS
SELECT minute, src_addr, dst_addr, way, sampler_address, flows, bytes, busy_ns
FROM flow_minutes
WHERE notEmpty(way);

CREATE VIEW IF NOT EXISTS flow_way_1m
(
    minute DateTime('UTC') COMMENT 'Minute in which the flows ended, UTC',
    src_addr LowCardinality(String) COMMENT 'Address of the sending NIC',
    dst_addr LowCardinality(String) COMMENT 'Address of the receiving NIC',
    way Array(LowCardinality(String)) COMMENT 'Switches the flows crossed, in order',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    busy_ns UInt64 COMMENT 'How long the flows lasted, added up, nanoseconds'
)
COMMENT 'Ways of directed pairs, one row a minute, pair, way and exporter; a flow seen by several exporters counts for each'
AS
SELECT minute, src_addr, dst_addr, way, sampler_address, flows, bytes, busy_ns
FROM flow_way_1m_log FINAL;

-- A flow seen by several exporters counts once: by the one that saw most of its pair's bytes on that way.
-- What a way loses is measured against the best one: how much longer its pairs take for their bytes, on average.
CREATE VIEW IF NOT EXISTS path_balance
(
    job_id String COMMENT 'The job',
    src_leaf String COMMENT 'Leaf of the senders',
    dst_leaf String COMMENT 'Leaf of the receivers',
    start_time DateTime('UTC') COMMENT 'Start of the minute in which the flows ended, UTC',
    ways UInt64 COMMENT 'Ways that the flows took from leaf to leaf, count',
    bytes_max UInt64 COMMENT 'Bytes on the way that carried most',
    bytes_mean Float64 COMMENT 'Bytes on a way, on average',
    elephants UInt64 COMMENT 'Pairs that carry half of a way''s usual bytes or more and share their way with another such pair, count',
    lost_s Float64 COMMENT 'How much longer pairs on the slowest way took for their bytes than they would have on the best one, seconds'
)
COMMENT 'How evenly the traffic of jobs spreads over the ways between two leaves, one row a job, two leaves and minute'
AS
WITH
    placed AS
    (
        SELECT m.job_id AS job_id, m.endpoint AS endpoint, t.leaf AS leaf, m.first_seen AS first_seen, m.last_seen AS last_seen
        FROM job_members AS m
        INNER JOIN (SELECT endpoint, leaf FROM topology ORDER BY endpoint, valid_from DESC NULLS LAST LIMIT 1 BY endpoint) AS t
            ON t.endpoint = m.endpoint
    ),
    taken AS
    (
        SELECT minute, src_addr::String AS src_addr, dst_addr::String AS dst_addr, way, max(seen_bytes) AS moved, max(seen_ns) / 1e9 AS busy_s
        FROM
        (
            SELECT minute, src_addr, dst_addr, way, sampler_address, sum(bytes) AS seen_bytes, sum(busy_ns) AS seen_ns
            FROM flow_way_1m_log
            GROUP BY minute, src_addr, dst_addr, way, sampler_address
        )
        GROUP BY minute, src_addr, dst_addr, way
    ),
    of_jobs AS
    (
        SELECT
            s.job_id AS job_id, s.leaf AS src_leaf, d.leaf AS dst_leaf, w.minute AS minute, w.way AS way,
            w.moved AS moved, w.busy_s AS busy_s
        FROM taken AS w
        INNER JOIN placed AS s ON s.endpoint = w.src_addr
        INNER JOIN placed AS d ON d.endpoint = w.dst_addr AND d.job_id = s.job_id
        WHERE s.leaf != d.leaf
            AND s.first_seen < w.minute + INTERVAL 1 MINUTE AND s.last_seen >= w.minute
            AND d.first_seen < w.minute + INTERVAL 1 MINUTE AND d.last_seen >= w.minute
    ),
    usual AS
    (
        SELECT *, sum(moved) OVER whole / uniqExact(way) OVER whole AS way_bytes
        FROM of_jobs
        WINDOW whole AS (PARTITION BY job_id, src_leaf, dst_leaf, minute)
    ),
    by_way AS
    (
        SELECT
            job_id, src_leaf, dst_leaf, minute, way,
            sum(moved) AS way_moved,
            countIf(moved >= way_bytes / 2) AS large,
            avg(busy_s) AS pair_s,
            avg(moved) AS pair_bytes
        FROM usual
        GROUP BY job_id, src_leaf, dst_leaf, minute, way
    )
SELECT
    job_id,
    src_leaf,
    dst_leaf,
    minute AS start_time,
    count() AS ways,
    max(way_moved) AS bytes_max,
    avg(way_moved) AS bytes_mean,
    sumIf(large, large > 1) AS elephants,
    max(greatest(pair_s - pair_bytes * best_s_per_byte, 0)) AS lost_s
FROM
(
    SELECT *, min(pair_s / pair_bytes) OVER (PARTITION BY job_id, src_leaf, dst_leaf, minute) AS best_s_per_byte
    FROM by_way
    WHERE pair_bytes > 0
)
GROUP BY job_id, src_leaf, dst_leaf, minute;

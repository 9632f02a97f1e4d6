-- The sums of traffic by second and by hour beside those by minute; each is fed by the next finer one, block by block, and
-- counts records as they were delivered, as that does. By second there are exporters only: pairs by second would be a seventh
-- of the records themselves, which answer as long as they are kept.

CREATE TABLE IF NOT EXISTS switch_1s_log
(
    second DateTime('UTC') COMMENT 'Second in which the flows ended, UTC' CODEC(Delta, ZSTD(1)),
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count' CODEC(T64, ZSTD(1)),
    bytes UInt64 COMMENT 'Bytes, as delivered' CODEC(ZSTD(1)),
    packets UInt64 COMMENT 'Packets, as delivered, count' CODEC(ZSTD(1)),
    written_at SimpleAggregateFunction(max, DateTime('UTC')) DEFAULT now() COMMENT 'When the last part of the row was written, UTC'
)
ENGINE = SummingMergeTree
PARTITION BY toYYYYMMDD(second)
ORDER BY (second, sampler_address)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Traffic of exporters by second, in part sums; read it as switch_1s';

-- Which records count, and grouping by a hash: as in flow_pair_1m_mv.
CREATE MATERIALIZED VIEW IF NOT EXISTS switch_1s_mv TO switch_1s_log
AS
SELECT toDateTime(second_number, 'UTC') AS second, sampler_address, flows, bytes, packets
FROM
(
    SELECT
        intDiv(l.time_flow_end_ns, 1000000000) AS second_number,
        any(l.exporter) AS sampler_address,
        count() AS flows,
        sum(l.bytes) AS bytes,
        sum(l.packets) AS packets
    FROM flow_landing AS l
    WHERE l.reason = '' OR (l.reason = 'no_time' AND l.time_flow_end_ns > 0)
    GROUP BY second_number, cityHash64(l.exporter)
);

CREATE VIEW IF NOT EXISTS switch_1s
(
    second DateTime('UTC') COMMENT 'Second in which the flows ended, UTC',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    packets UInt64 COMMENT 'Packets, as delivered, count'
)
COMMENT 'Traffic of exporters, one row a second and exporter'
AS
SELECT second, sampler_address, flows, bytes, packets
FROM switch_1s_log FINAL;

CREATE TABLE IF NOT EXISTS flow_pair_1h_log
(
    hour DateTime('UTC') COMMENT 'Hour in which the flows ended, UTC',
    src_addr LowCardinality(String) COMMENT 'Address of the sending NIC',
    dst_addr LowCardinality(String) COMMENT 'Address of the receiving NIC',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    packets UInt64 COMMENT 'Packets, as delivered, count',
    first_start_ns SimpleAggregateFunction(min, Int64) COMMENT 'First byte of all, nanoseconds since the epoch',
    last_end_ns SimpleAggregateFunction(max, Int64) COMMENT 'Last byte of all, nanoseconds since the epoch',
    last_received_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the last of them arrived, UTC',
    written_at SimpleAggregateFunction(max, DateTime('UTC')) DEFAULT now() COMMENT 'When the last part of the row was written, UTC'
)
ENGINE = SummingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (hour, src_addr, dst_addr, sampler_address)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Traffic of directed pairs by hour and exporter, in part sums; read it as flow_pair_1h';

CREATE MATERIALIZED VIEW IF NOT EXISTS flow_pair_1h_mv TO flow_pair_1h_log
AS
SELECT
    toStartOfHour(p.minute) AS hour,
    p.src_addr AS src_addr,
    p.dst_addr AS dst_addr,
    p.sampler_address AS sampler_address,
    sum(p.flows) AS flows,
    sum(p.bytes) AS bytes,
    sum(p.packets) AS packets,
    min(p.first_start_ns) AS first_start_ns,
    max(p.last_end_ns) AS last_end_ns,
    max(p.last_received_at) AS last_received_at
FROM flow_pair_1m_log AS p
GROUP BY hour, src_addr, dst_addr, sampler_address;

CREATE VIEW IF NOT EXISTS flow_pair_1h
(
    hour DateTime('UTC') COMMENT 'Hour in which the flows ended, UTC',
    src_addr LowCardinality(String) COMMENT 'Address of the sending NIC',
    dst_addr LowCardinality(String) COMMENT 'Address of the receiving NIC',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    packets UInt64 COMMENT 'Packets, as delivered, count',
    first_start_ns Int64 COMMENT 'First byte of all, nanoseconds since the epoch',
    last_end_ns Int64 COMMENT 'Last byte of all, nanoseconds since the epoch',
    last_received_at DateTime64(3, 'UTC') COMMENT 'When the last of them arrived, UTC'
)
COMMENT 'Traffic of directed pairs, one row an hour, pair and exporter; a flow seen by several exporters counts for each'
AS
SELECT hour, src_addr, dst_addr, sampler_address, flows, bytes, packets, first_start_ns, last_end_ns, last_received_at
FROM flow_pair_1h_log FINAL;

CREATE TABLE IF NOT EXISTS switch_1h_log
(
    hour DateTime('UTC') COMMENT 'Hour in which the flows ended, UTC',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    packets UInt64 COMMENT 'Packets, as delivered, count',
    first_start_ns SimpleAggregateFunction(min, Int64) COMMENT 'First byte of all, nanoseconds since the epoch',
    last_end_ns SimpleAggregateFunction(max, Int64) COMMENT 'Last byte of all, nanoseconds since the epoch',
    last_received_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the last of them arrived, UTC',
    written_at SimpleAggregateFunction(max, DateTime('UTC')) DEFAULT now() COMMENT 'When the last part of the row was written, UTC'
)
ENGINE = SummingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (hour, sampler_address)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Traffic of exporters by hour, in part sums; read it as switch_1h';

CREATE MATERIALIZED VIEW IF NOT EXISTS switch_1h_mv TO switch_1h_log
AS
SELECT
    toStartOfHour(s.minute) AS hour,
    s.sampler_address AS sampler_address,
    sum(s.flows) AS flows,
    sum(s.bytes) AS bytes,
    sum(s.packets) AS packets,
    min(s.first_start_ns) AS first_start_ns,
    max(s.last_end_ns) AS last_end_ns,
    max(s.last_received_at) AS last_received_at
FROM switch_1m_log AS s
GROUP BY hour, sampler_address;

CREATE VIEW IF NOT EXISTS switch_1h
(
    hour DateTime('UTC') COMMENT 'Hour in which the flows ended, UTC',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    packets UInt64 COMMENT 'Packets, as delivered, count',
    first_start_ns Int64 COMMENT 'First byte of all, nanoseconds since the epoch',
    last_end_ns Int64 COMMENT 'Last byte of all, nanoseconds since the epoch',
    last_received_at DateTime64(3, 'UTC') COMMENT 'When the last of them arrived, UTC'
)
COMMENT 'Traffic of exporters, one row an hour and exporter'
AS
SELECT hour, sampler_address, flows, bytes, packets, first_start_ns, last_end_ns, last_received_at
FROM switch_1h_log FINAL;

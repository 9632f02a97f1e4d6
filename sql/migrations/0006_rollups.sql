-- Sums of flow records by second, minute and hour, as delivered: exact repeats are not folded here.
--
-- They serve volume and telemetry, and show which times have data; results about jobs rest on flows. A record without start
-- and end counts at its arrival at the collector: volumes by pair and switch hold also where steps can't be found.
-- Sums by hour are fed by those by minute. By second there are exporters only: pairs by second would take a seventh of
-- the room of the records themselves.

CREATE TABLE IF NOT EXISTS flow_pair_1m_log
(
    minute DateTime('UTC') COMMENT 'Minute in which the flows ended, UTC',
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
PARTITION BY toYYYYMM(minute)
ORDER BY (minute, src_addr, dst_addr, sampler_address)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Traffic of directed pairs by minute and exporter, in part sums; read it as flow_pair_1m';

CREATE TABLE IF NOT EXISTS flow_minutes
(
    minute DateTime('UTC') COMMENT 'Minute in which the flows ended, UTC',
    src_addr LowCardinality(String) COMMENT 'Address of the sending NIC',
    dst_addr LowCardinality(String) COMMENT 'Address of the receiving NIC',
    way Array(LowCardinality(String)) COMMENT 'Switches the flows crossed, in order; empty where unknown',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    packets UInt64 COMMENT 'Packets, as delivered, count',
    busy_ns UInt64 COMMENT 'How long the flows lasted, added up, nanoseconds',
    first_start_ns Int64 COMMENT 'First byte of all, nanoseconds since the epoch',
    last_end_ns Int64 COMMENT 'Last byte of all, nanoseconds since the epoch',
    last_received_at DateTime64(3, 'UTC') COMMENT 'When the last of them arrived, UTC'
)
ENGINE = Null
COMMENT 'Sums by minute, pair, way and exporter on their way into flow_pair_1m and flow_way_1m';

-- Records are grouped once for both. Grouped by hashes of the texts, which takes half the time that the texts take; 64 bits
-- keep addresses apart.
CREATE MATERIALIZED VIEW IF NOT EXISTS flow_minutes_mv TO flow_minutes
AS
SELECT
    toDateTime(minute_number * 60, 'UTC') AS minute,
    src_addr,
    dst_addr,
    way,
    sampler_address,
    flows,
    bytes,
    packets,
    busy_ns,
    first_start_ns,
    last_end_ns,
    last_received_at
FROM
(
    SELECT
        intDiv(l.time_flow_end_ns, 60000000000) AS minute_number,
        any(l.src) AS src_addr,
        any(l.dst) AS dst_addr,
        any(l.path) AS way,
        any(l.exporter) AS sampler_address,
        count() AS flows,
        sum(l.bytes) AS bytes,
        sum(l.packets) AS packets,
        sumIf(toUInt64(l.time_flow_end_ns - l.time_flow_start_ns), l.reason = '') AS busy_ns,
        min(l.time_flow_start_ns) AS first_start_ns,
        max(l.time_flow_end_ns) AS last_end_ns,
        max(l.received_at) AS last_received_at
    FROM flow_landing AS l
    WHERE l.reason = '' OR (l.reason = 'no_time' AND l.time_flow_end_ns > 0)
    GROUP BY
        minute_number, cityHash64(l.src), cityHash64(l.dst), cityHash64(l.exporter),
        cityHash64(arrayMap(switch -> cityHash64(switch), l.path))
);

CREATE MATERIALIZED VIEW IF NOT EXISTS flow_pair_1m_mv TO flow_pair_1m_log
AS
SELECT
    m.minute AS minute,
    m.src_addr AS src_addr,
    m.dst_addr AS dst_addr,
    m.sampler_address AS sampler_address,
    sum(m.flows) AS flows,
    sum(m.bytes) AS bytes,
    sum(m.packets) AS packets,
    min(m.first_start_ns) AS first_start_ns,
    max(m.last_end_ns) AS last_end_ns,
    max(m.last_received_at) AS last_received_at
FROM flow_minutes AS m
GROUP BY minute, src_addr, dst_addr, sampler_address;

CREATE VIEW IF NOT EXISTS flow_pair_1m
(
    minute DateTime('UTC') COMMENT 'Minute in which the flows ended, UTC',
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
COMMENT 'Traffic of directed pairs, one row a minute, pair and exporter; a flow seen by several exporters counts for each'
AS
SELECT minute, src_addr, dst_addr, sampler_address, flows, bytes, packets, first_start_ns, last_end_ns, last_received_at
FROM flow_pair_1m_log FINAL;

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

CREATE TABLE IF NOT EXISTS switch_1m_log
(
    minute DateTime('UTC') COMMENT 'Minute in which the flows ended, UTC',
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
PARTITION BY toYYYYMM(minute)
ORDER BY (minute, sampler_address)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Traffic of exporters by minute, in part sums; read it as switch_1m';

-- Fed by the sums over pairs, which are few, and not once more by the records.
CREATE MATERIALIZED VIEW IF NOT EXISTS switch_1m_mv TO switch_1m_log
AS
SELECT
    p.minute AS minute,
    p.sampler_address AS sampler_address,
    sum(p.flows) AS flows,
    sum(p.bytes) AS bytes,
    sum(p.packets) AS packets,
    min(p.first_start_ns) AS first_start_ns,
    max(p.last_end_ns) AS last_end_ns,
    max(p.last_received_at) AS last_received_at
FROM flow_pair_1m_log AS p
GROUP BY minute, sampler_address;

CREATE VIEW IF NOT EXISTS switch_1m
(
    minute DateTime('UTC') COMMENT 'Minute in which the flows ended, UTC',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    packets UInt64 COMMENT 'Packets, as delivered, count',
    first_start_ns Int64 COMMENT 'First byte of all, nanoseconds since the epoch',
    last_end_ns Int64 COMMENT 'Last byte of all, nanoseconds since the epoch',
    last_received_at DateTime64(3, 'UTC') COMMENT 'When the last of them arrived, UTC'
)
COMMENT 'Traffic of exporters, one row a minute and exporter'
AS
SELECT minute, sampler_address, flows, bytes, packets, first_start_ns, last_end_ns, last_received_at
FROM switch_1m_log FINAL;

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

CREATE TABLE IF NOT EXISTS arrivals_log
(
    second DateTime('UTC') COMMENT 'Second in which the flows ended, UTC',
    records UInt64 COMMENT 'Flow records, as delivered, count',
    fingerprint UInt64 COMMENT 'Sum of 64-bit hashes of the records, wrapping: the same records give the same, in any order',
    last_received_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the last of them arrived, UTC',
    first_written_at SimpleAggregateFunction(min, DateTime('UTC')) DEFAULT now() COMMENT 'When the first of them landed here, UTC',
    written_at SimpleAggregateFunction(max, DateTime('UTC')) DEFAULT now() COMMENT 'When the last part of the row was written, UTC',
    INDEX first_written_range first_written_at TYPE minmax
)
ENGINE = SummingMergeTree
PARTITION BY toYYYYMM(second)
ORDER BY second
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Which seconds have flows, in part sums; read it as arrivals';

CREATE MATERIALIZED VIEW IF NOT EXISTS arrivals_mv TO arrivals_log
AS
SELECT
    toDateTime(second_number, 'UTC') AS second,
    records,
    fingerprint,
    last_received_at
FROM
(
    SELECT
        intDiv(time_flow_end_ns, 1000000000) AS second_number,
        count() AS records,
        sum(
            -- Texts are hashed first by themselves, which is done once for each one that differs.
            cityHash64(
                time_flow_start_ns, time_flow_end_ns, cityHash64(src), cityHash64(dst), src_port, dst_port, protocol,
                bytes, packets, cityHash64(exporter)
            )
        ) AS fingerprint,
        max(received_at) AS last_received_at
    FROM flow_landing
    WHERE reason = ''
    GROUP BY second_number
);

CREATE VIEW IF NOT EXISTS arrivals
(
    second DateTime('UTC') COMMENT 'Second in which the flows ended, UTC',
    records UInt64 COMMENT 'Flow records, as delivered, count',
    fingerprint UInt64 COMMENT 'Sum of 64-bit hashes of the records, wrapping: the same records give the same, in any order',
    last_received_at DateTime64(3, 'UTC') COMMENT 'When the last of them arrived, UTC'
)
COMMENT 'Which seconds have flows and whether more have come since, one row a second'
AS
SELECT second, records, fingerprint, last_received_at
FROM arrivals_log FINAL;

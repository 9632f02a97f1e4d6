-- Traffic over a span of time at the resolution that the question needs: give the span and how many points to draw.

-- The coarsest resolution that still gives that many points is read; the finest there is, where none does. Where a finer one
-- no longer has all that the next coarser one has, as when it has expired, that time comes from the coarser one.
CREATE VIEW IF NOT EXISTS pair_traffic
(
    time DateTime('UTC') COMMENT 'Minute or hour in which the flows ended, UTC',
    resolution_s UInt32 COMMENT 'How long that is, seconds',
    src_addr String COMMENT 'Address of the sending NIC',
    dst_addr String COMMENT 'Address of the receiving NIC',
    exporter String COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    packets UInt64 COMMENT 'Packets, as delivered, count'
)
COMMENT 'Traffic of pairs: pair_traffic(from_time = ..., to_time = ..., points = ...), one row a minute or hour, pair and exporter'
AS
WITH
    toDateTime({from_time:DateTime('UTC')}, 'UTC') AS since,
    toDateTime({to_time:DateTime('UTC')}, 'UTC') AS until,
    dateDiff('second', since, until) / greatest({points:UInt32}, 1) AS wanted_s,
    whole_hours AS
    (
        SELECT hour
        FROM
        (
            SELECT toStartOfHour(m.minute) AS hour, sum(m.flows) AS records, 60 AS resolution_s
            FROM flow_pair_1m_log AS m
            WHERE m.minute >= toStartOfHour(since) AND m.minute < toStartOfHour(until) + INTERVAL 1 HOUR AND wanted_s < 3600
            GROUP BY hour
            UNION ALL
            SELECT h.hour AS hour, sum(h.flows) AS records, 3600 AS resolution_s
            FROM flow_pair_1h_log AS h
            WHERE h.hour >= toStartOfHour(since) AND h.hour < until AND wanted_s < 3600
            GROUP BY hour
        )
        GROUP BY hour
        HAVING sumIf(records, resolution_s = 60) >= sumIf(records, resolution_s = 3600)
    )
SELECT
    m.minute AS time,
    60::UInt32 AS resolution_s,
    m.src_addr::String AS src_addr,
    m.dst_addr::String AS dst_addr,
    m.sampler_address::String AS exporter,
    sum(m.flows) AS flows,
    sum(m.bytes) AS bytes,
    sum(m.packets) AS packets
FROM flow_pair_1m_log AS m
WHERE m.minute >= toStartOfMinute(since) AND m.minute < until
    AND toStartOfHour(m.minute) GLOBAL IN (SELECT hour FROM whole_hours)
GROUP BY ALL
UNION ALL
SELECT
    h.hour AS time,
    3600::UInt32 AS resolution_s,
    h.src_addr::String AS src_addr,
    h.dst_addr::String AS dst_addr,
    h.sampler_address::String AS exporter,
    sum(h.flows) AS flows,
    sum(h.bytes) AS bytes,
    sum(h.packets) AS packets
FROM flow_pair_1h_log AS h
WHERE h.hour >= toStartOfHour(since) AND h.hour < until
    AND h.hour GLOBAL NOT IN (SELECT hour FROM whole_hours)
GROUP BY ALL;

CREATE VIEW IF NOT EXISTS switch_traffic
(
    time DateTime('UTC') COMMENT 'Second, minute or hour in which the flows ended, UTC',
    resolution_s UInt32 COMMENT 'How long that is, seconds',
    exporter String COMMENT 'Exporter (switch) that saw them; empty where unknown',
    flows UInt64 COMMENT 'Flow records, as delivered, count',
    bytes UInt64 COMMENT 'Bytes, as delivered',
    packets UInt64 COMMENT 'Packets, as delivered, count'
)
COMMENT 'Traffic of exporters: switch_traffic(from_time = ..., to_time = ..., points = ...), one row a second, minute or hour and exporter'
AS
WITH
    toDateTime({from_time:DateTime('UTC')}, 'UTC') AS since,
    toDateTime({to_time:DateTime('UTC')}, 'UTC') AS until,
    dateDiff('second', since, until) / greatest({points:UInt32}, 1) AS wanted_s,
    whole_hours AS
    (
        SELECT hour
        FROM
        (
            SELECT toStartOfHour(m.minute) AS hour, sum(m.flows) AS records, 60 AS resolution_s
            FROM switch_1m_log AS m
            WHERE m.minute >= toStartOfHour(since) AND m.minute < toStartOfHour(until) + INTERVAL 1 HOUR AND wanted_s < 3600
            GROUP BY hour
            UNION ALL
            SELECT h.hour AS hour, sum(h.flows) AS records, 3600 AS resolution_s
            FROM switch_1h_log AS h
            WHERE h.hour >= toStartOfHour(since) AND h.hour < until AND wanted_s < 3600
            GROUP BY hour
        )
        GROUP BY hour
        HAVING sumIf(records, resolution_s = 60) >= sumIf(records, resolution_s = 3600)
    ),
    whole_minutes AS
    (
        SELECT minute
        FROM
        (
            SELECT toStartOfMinute(s.second) AS minute, sum(s.flows) AS records, 1 AS resolution_s
            FROM switch_1s_log AS s
            WHERE s.second >= toStartOfMinute(since) AND s.second < toStartOfMinute(until) + INTERVAL 1 MINUTE AND wanted_s < 60
            GROUP BY minute
            UNION ALL
            SELECT m.minute AS minute, sum(m.flows) AS records, 60 AS resolution_s
            FROM switch_1m_log AS m
            WHERE m.minute >= toStartOfMinute(since) AND m.minute < until AND wanted_s < 60
            GROUP BY minute
        )
        GROUP BY minute
        HAVING sumIf(records, resolution_s = 1) >= sumIf(records, resolution_s = 60)
    )
SELECT
    s.second AS time,
    1::UInt32 AS resolution_s,
    s.sampler_address::String AS exporter,
    sum(s.flows) AS flows,
    sum(s.bytes) AS bytes,
    sum(s.packets) AS packets
FROM switch_1s_log AS s
WHERE s.second >= since AND s.second < until
    AND toStartOfMinute(s.second) IN (SELECT minute FROM whole_minutes)
    AND toStartOfHour(s.second) IN (SELECT hour FROM whole_hours)
GROUP BY ALL
UNION ALL
SELECT
    m.minute AS time,
    60::UInt32 AS resolution_s,
    m.sampler_address::String AS exporter,
    sum(m.flows) AS flows,
    sum(m.bytes) AS bytes,
    sum(m.packets) AS packets
FROM switch_1m_log AS m
WHERE m.minute >= toStartOfMinute(since) AND m.minute < until
    AND m.minute NOT IN (SELECT minute FROM whole_minutes)
    AND toStartOfHour(m.minute) IN (SELECT hour FROM whole_hours)
GROUP BY ALL
UNION ALL
SELECT
    h.hour AS time,
    3600::UInt32 AS resolution_s,
    h.sampler_address::String AS exporter,
    sum(h.flows) AS flows,
    sum(h.bytes) AS bytes,
    sum(h.packets) AS packets
FROM switch_1h_log AS h
WHERE h.hour >= toStartOfHour(since) AND h.hour < until
    AND h.hour NOT IN (SELECT hour FROM whole_hours)
GROUP BY ALL;

-- What rows are compared with, so that those which vanish with a damaged or deleted part are missed, and how they are put back.

-- Unlike the number of records and the sum of their hashes, the lowest and highest hash of a second are the same where some of
-- its records are delivered twice: they say whether the flows of the second, each once, are still there.
ALTER TABLE arrivals_log ADD COLUMN IF NOT EXISTS lowest_hash SimpleAggregateFunction(min, UInt64) COMMENT 'Lowest 64-bit hash of a record; 0 where unknown';

ALTER TABLE arrivals_log ADD COLUMN IF NOT EXISTS highest_hash SimpleAggregateFunction(max, UInt64) COMMENT 'Highest 64-bit hash of a record; 0 where unknown';

-- Records that are landed again go where repeats fold, and not into sums, which have them already.
ALTER TABLE flow_landing ADD COLUMN IF NOT EXISTS is_again UInt8 MATERIALIZED position(landing, '-again-') > 0 COMMENT '1 of a record that has landed before and is put back where it was lost';

CREATE OR REPLACE MATERIALIZED VIEW arrivals_mv TO arrivals_log AS
SELECT
    toDateTime(second_number, 'UTC') AS second,
    records,
    fingerprint,
    lowest_hash,
    highest_hash,
    last_received_at
FROM
(
    WITH
        cityHash64(
            time_flow_start_ns, time_flow_end_ns, cityHash64(src), cityHash64(dst), src_port, dst_port, protocol, bytes, packets,
            cityHash64(exporter)
        ) AS hash
    SELECT
        intDiv(time_flow_end_ns, 1000000000) AS second_number,
        count() AS records,
        sum(hash) AS fingerprint,
        min(hash) AS lowest_hash,
        max(hash) AS highest_hash,
        max(received_at) AS last_received_at
    FROM flow_landing
    WHERE reason = '' AND NOT is_again
    GROUP BY second_number
);

CREATE OR REPLACE MATERIALIZED VIEW flow_minutes_mv TO flow_minutes AS
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
    WHERE (l.reason = '' OR (l.reason = 'no_time' AND l.time_flow_end_ns > 0)) AND NOT l.is_again
    GROUP BY
        minute_number, cityHash64(l.src), cityHash64(l.dst), cityHash64(l.exporter),
        cityHash64(arrayMap(switch -> cityHash64(switch), l.path))
);

CREATE OR REPLACE MATERIALIZED VIEW switch_1s_mv TO switch_1s_log AS
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
    WHERE (l.reason = '' OR (l.reason = 'no_time' AND l.time_flow_end_ns > 0)) AND NOT l.is_again
    GROUP BY second_number, cityHash64(l.exporter)
);

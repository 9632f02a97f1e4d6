-- Sums by minute are grouped by one hash of what tells them apart: five columns are more than the engine compares at once.

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
    WITH intDiv(l.time_flow_end_ns, 60000000000) AS ended_minute
    SELECT
        any(ended_minute) AS minute_number,
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
    GROUP BY cityHash64(ended_minute, cityHash64(l.src), cityHash64(l.dst), cityHash64(l.exporter), cityHash64(l.path))
);

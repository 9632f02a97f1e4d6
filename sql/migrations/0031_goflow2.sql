-- GoFlow2, version 2: JSON of its protobuf, names in snake case, times in nanoseconds, counts of the sampled packets.

-- Each sFlow sample is a packet of its own, and those of one datagram may be alike but for what only the original text shows.
CREATE MATERIALIZED VIEW IF NOT EXISTS goflow2_json_mv TO flow_collected
AS
WITH
    trimBoth(trim(TRAILING '\r\n' FROM l.line)) AS text,
    JSONExtract(
        text,
        'Tuple(type String, time_received_ns String, time_flow_start_ns String, time_flow_end_ns String, src_addr String,
            dst_addr String, src_port String, dst_port String, proto String, bytes String, packets String,
            sampler_address String, sampling_rate String)'
    ) AS fields
SELECT
    l.landing AS landing,
    l.source AS source,
    l.position AS position,
    l.received_at AS received_at,
    l.collector AS collector,
    fields.time_flow_start_ns AS first_seen,
    fields.time_flow_end_ns AS last_seen,
    fields.time_received_ns AS arrived,
    fields.src_addr AS src_addr,
    fields.dst_addr AS dst_addr,
    fields.src_port AS src_port,
    fields.dst_port AS dst_port,
    fields.proto AS proto,
    fields.bytes AS bytes,
    fields.packets AS packets,
    fields.sampler_address AS sampler_address,
    fields.sampling_rate AS sampling_rate,
    if(fields.type = 'SFLOW_5', cityHash64(text), 0) AS sample,
    text AS record
FROM flow_json_lines AS l
WHERE l.collector = 'goflow2' AND text != '';

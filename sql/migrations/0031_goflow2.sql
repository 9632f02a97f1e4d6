-- GoFlow2, version 2: JSON of its protobuf, names in snake case, times in nanoseconds, counts of the sampled packets.

CREATE TABLE IF NOT EXISTS goflow2_lines
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Line number in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it arrived here, UTC',
    line String COMMENT 'One JSON object, with or without a line end'
)
ENGINE = Null
COMMENT 'Records of GoFlow2 as JSON on their way in; a view on it names their fields for flow_collected';

-- Each sFlow sample is a packet of its own, and those of one datagram may be alike but for what only the original text shows.
CREATE MATERIALIZED VIEW IF NOT EXISTS goflow2_lines_mv TO flow_collected
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
    'goflow2' AS collector,
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
FROM goflow2_lines AS l
WHERE text != '';

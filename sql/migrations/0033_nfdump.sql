-- nfdump, version 1.7: JSON, of which each object comes as one row, whether it was written as an array or a line each. nfcapd has
-- applied the sampling rate already where it knew one. Of a bidirectional record out_* count the opposite direction.

CREATE TABLE IF NOT EXISTS nfdump_lines
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Line number in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it arrived here, UTC',
    line String COMMENT 'One JSON object, with or without a line end'
)
ENGINE = Null
COMMENT 'Records of nfdump as JSON on their way in; a view on it names their fields for flow_collected';

CREATE MATERIALIZED VIEW IF NOT EXISTS nfdump_lines_mv TO flow_collected
AS
WITH
    trim(BOTH ' \t\r\n,[]' FROM l.line) AS text,
    JSONExtract(
        text,
        'Tuple(first String, last String, received String, src4_addr String, dst4_addr String, src6_addr String,
            dst6_addr String, src_port String, dst_port String, proto String, in_bytes String, in_packets String,
            out_bytes String, out_packets String, ip4_router String, ip6_router String)'
    ) AS fields
SELECT
    l.landing AS landing,
    l.source AS source,
    l.position AS position,
    l.received_at AS received_at,
    'nfdump' AS collector,
    fields.first AS first_seen,
    fields.last AS last_seen,
    fields.received AS arrived,
    if(fields.src4_addr != '', fields.src4_addr, fields.src6_addr) AS src_addr,
    if(fields.dst4_addr != '', fields.dst4_addr, fields.dst6_addr) AS dst_addr,
    fields.src_port AS src_port,
    fields.dst_port AS dst_port,
    fields.proto AS proto,
    fields.in_bytes AS bytes,
    fields.in_packets AS packets,
    fields.out_bytes AS reverse_bytes,
    fields.out_packets AS reverse_packets,
    if(fields.ip4_router != '', fields.ip4_router, fields.ip6_router) AS sampler_address,
    text AS record
FROM nfdump_lines AS l
WHERE text != '';

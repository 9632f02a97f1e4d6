-- pmacct (nfacctd, pmacctd, sfacctd): JSON with the fields it was told to aggregate by. Times are local time as text, seconds
-- since the epoch with a fraction, or RFC 3339, as it was told. Counts are of the sampled packets, and sampling_rate is the rate,
-- unless it was told to renormalise: then it says 1.

CREATE TABLE IF NOT EXISTS pmacct_lines
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Line number in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it arrived here, UTC',
    line String COMMENT 'One JSON object, with or without a line end'
)
ENGINE = Null
COMMENT 'Records of pmacct as JSON on their way in; a view on it names their fields for flow_collected';

CREATE MATERIALIZED VIEW IF NOT EXISTS pmacct_lines_mv TO flow_collected
AS
WITH
    trimBoth(trim(TRAILING '\r\n' FROM l.line)) AS text,
    JSONExtract(
        text,
        'Tuple(timestamp_start String, timestamp_end String, timestamp_arrival String, ip_src String, ip_dst String,
            port_src String, port_dst String, ip_proto String, bytes String, packets String, peer_ip_src String,
            sampling_rate String)'
    ) AS fields
SELECT
    l.landing AS landing,
    l.source AS source,
    l.position AS position,
    l.received_at AS received_at,
    'pmacct' AS collector,
    fields.timestamp_start AS first_seen,
    fields.timestamp_end AS last_seen,
    fields.timestamp_arrival AS arrived,
    fields.ip_src AS src_addr,
    fields.ip_dst AS dst_addr,
    fields.port_src AS src_port,
    fields.port_dst AS dst_port,
    fields.ip_proto AS proto,
    fields.bytes AS bytes,
    fields.packets AS packets,
    fields.peer_ip_src AS sampler_address,
    fields.sampling_rate AS sampling_rate,
    text AS record
FROM pmacct_lines AS l
WHERE text != '';

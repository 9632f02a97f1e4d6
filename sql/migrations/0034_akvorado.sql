-- Akvorado, version 2: rows of its table `flows` as JSON. It keeps when a record came, in seconds, and neither start nor end: good
-- for volumes, of no use for steps.

CREATE TABLE IF NOT EXISTS akvorado_lines
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Line number in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it arrived here, UTC',
    line String COMMENT 'One JSON object, with or without a line end'
)
ENGINE = Null
COMMENT 'Records of Akvorado as JSON on their way in; a view on it names their fields for flow_collected';

CREATE MATERIALIZED VIEW IF NOT EXISTS akvorado_lines_mv TO flow_collected
AS
WITH
    trimBoth(trim(TRAILING '\r\n' FROM l.line)) AS text,
    JSONExtract(
        text,
        'Tuple(TimeReceived String, SrcAddr String, DstAddr String, SrcPort String, DstPort String, Proto String, Bytes String,
            Packets String, ExporterAddress String, SamplingRate String)'
    ) AS fields
SELECT
    l.landing AS landing,
    l.source AS source,
    l.position AS position,
    l.received_at AS received_at,
    'akvorado' AS collector,
    fields.TimeReceived AS arrived,
    fields.SrcAddr AS src_addr,
    fields.DstAddr AS dst_addr,
    fields.SrcPort AS src_port,
    fields.DstPort AS dst_port,
    fields.Proto AS proto,
    fields.Bytes AS bytes,
    fields.Packets AS packets,
    fields.ExporterAddress AS sampler_address,
    fields.SamplingRate AS sampling_rate,
    text AS record
FROM akvorado_lines AS l
WHERE text != '';

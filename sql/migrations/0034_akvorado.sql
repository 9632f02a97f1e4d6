-- Akvorado, version 2: rows of its table `flows` as JSON. It keeps when a record came, in seconds, and neither start nor end: good
-- for volumes, of no use for steps.
CREATE MATERIALIZED VIEW IF NOT EXISTS akvorado_json_mv TO flow_collected
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
    l.collector AS collector,
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
FROM flow_json_lines AS l
WHERE l.collector = 'akvorado' AND text != '';

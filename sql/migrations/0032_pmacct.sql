-- pmacct (nfacctd, pmacctd, sfacctd): JSON with the fields it was told to aggregate by. Times are local time as text, seconds
-- since the epoch with a fraction, or RFC 3339, as it was told. Counts are of the sampled packets, and sampling_rate is the rate,
-- unless it was told to renormalise: then it says 1.
CREATE MATERIALIZED VIEW IF NOT EXISTS pmacct_json_mv TO flow_collected
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
    l.collector AS collector,
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
FROM flow_json_lines AS l
WHERE l.collector = 'pmacct' AND text != '';

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

-- The same as protobuf, which sql/formats/goflow2.proto describes.
CREATE TABLE IF NOT EXISTS goflow2_messages
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Number of the message in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it arrived here, UTC',
    digest UInt64 COMMENT 'Hash of the message; 0 where unknown',
    type UInt64 COMMENT 'What the exporter sent: 1 sFlow, 2 NetFlow v5, 3 NetFlow v9, 4 IPFIX',
    time_received_ns UInt64 COMMENT 'When GoFlow2 got it, nanoseconds since the epoch; 0 where unknown',
    time_flow_start_ns UInt64 COMMENT 'First byte, nanoseconds since the epoch; 0 where unknown',
    time_flow_end_ns UInt64 COMMENT 'Last byte, nanoseconds since the epoch; 0 where unknown',
    src_addr String COMMENT 'Address of the sending NIC, 4 or 16 bytes',
    dst_addr String COMMENT 'Address of the receiving NIC, 4 or 16 bytes',
    src_port UInt64 COMMENT 'Source port',
    dst_port UInt64 COMMENT 'Destination port',
    proto UInt64 COMMENT 'IANA protocol number',
    bytes UInt64 COMMENT 'Bytes of the samples',
    packets UInt64 COMMENT 'Packets of the samples, count',
    sampler_address String COMMENT 'Exporter (switch) that saw it, 4 or 16 bytes',
    sampling_rate UInt64 COMMENT 'One packet in this many was sampled; 0 where unknown'
)
ENGINE = Null
COMMENT 'Records of GoFlow2 as protobuf on their way in; a view on it names their fields for flow_collected';

CREATE MATERIALIZED VIEW IF NOT EXISTS goflow2_messages_mv TO flow_collected
AS
WITH
    arrayMap(
        address -> multiIf(
            length(address) = 4, IPv4NumToString(reinterpretAsUInt32(reverse(address))),
            length(address) = 16, IPv6NumToString(toFixedString(substring(address, 1, 16), 16)),
            hex(address)
        ),
        [m.src_addr, m.dst_addr, m.sampler_address]
    ) AS addresses
SELECT
    m.landing AS landing,
    m.source AS source,
    m.position AS position,
    m.received_at AS received_at,
    'goflow2' AS collector,
    toString(m.time_flow_start_ns) AS first_seen,
    toString(m.time_flow_end_ns) AS last_seen,
    toString(m.time_received_ns) AS arrived,
    addresses[1] AS src_addr,
    addresses[2] AS dst_addr,
    toString(m.src_port) AS src_port,
    toString(m.dst_port) AS dst_port,
    toString(m.proto) AS proto,
    toString(m.bytes) AS bytes,
    toString(m.packets) AS packets,
    addresses[3] AS sampler_address,
    toString(m.sampling_rate) AS sampling_rate,
    if(m.type = 1, m.digest, 0) AS sample,
    toJSONString(
        map(
            'type', toString(m.type), 'time_received_ns', arrived, 'time_flow_start_ns', first_seen, 'time_flow_end_ns', last_seen,
            'src_addr', src_addr, 'dst_addr', dst_addr, 'src_port', src_port, 'dst_port', dst_port, 'proto', proto,
            'bytes', bytes, 'packets', packets, 'sampler_address', sampler_address, 'sampling_rate', sampling_rate
        )
    ) AS record
FROM goflow2_messages AS m;

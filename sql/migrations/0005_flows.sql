-- Flow records, each once: those that can be used, and those that can't with the reason and the original text.

-- Sorted by minute of end, pair and start, so that a window's flows are read as sorted sequences of pairs.
-- All that makes a record what it is stands in the sorting key: merges fold exact repeats, and nothing else.
CREATE TABLE IF NOT EXISTS flows_log
(
    time_flow_start_ns Int64 COMMENT 'First byte, nanoseconds since the epoch' CODEC(Delta, ZSTD(1)),
    time_flow_end_ns Int64 COMMENT 'Last byte, nanoseconds since the epoch' CODEC(Delta, ZSTD(1)),
    src_addr LowCardinality(String) COMMENT 'Address of the sending NIC, canonical text',
    dst_addr LowCardinality(String) COMMENT 'Address of the receiving NIC, canonical text',
    src_port UInt16 COMMENT 'Source port; 0 where unknown' CODEC(ZSTD(1)),
    dst_port UInt16 COMMENT 'Destination port, 4791 for RoCEv2; 0 where unknown' CODEC(ZSTD(1)),
    proto UInt8 COMMENT 'IANA protocol number' CODEC(ZSTD(1)),
    bytes UInt64 COMMENT 'Bytes, sampling rate already applied' CODEC(ZSTD(1)),
    packets UInt64 COMMENT 'Packets, sampling rate already applied, count' CODEC(ZSTD(1)),
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw it; empty where unknown',
    sampling_rate UInt32 COMMENT 'One packet in this many was sampled' CODEC(ZSTD(1)),
    path Array(LowCardinality(String)) COMMENT 'Switches the flow crossed, in order; empty where unknown',
    received_at DateTime64(3, 'UTC') COMMENT 'When it arrived, at the collector where that is known, UTC' CODEC(Delta, ZSTD(1)),
    sample UInt64 COMMENT 'Tells sampled packets apart that are alike in all else; 0 of flow records' CODEC(ZSTD(1)),
    written_at DateTime('UTC') DEFAULT toStartOfHour(now('UTC')) COMMENT 'When it landed here, to the hour, UTC'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(time_flow_end_ns, 'UTC'))
PRIMARY KEY (intDiv(time_flow_end_ns, 60000000000), src_addr, dst_addr)
ORDER BY
(
    intDiv(time_flow_end_ns, 60000000000), src_addr, dst_addr, time_flow_start_ns, time_flow_end_ns,
    src_port, dst_port, proto, bytes, packets, sampler_address, sample
)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Flow records, exact repeats folded when parts merge; read it as flows';

CREATE MATERIALIZED VIEW IF NOT EXISTS flows_mv TO flows_log
AS
SELECT
    time_flow_start_ns,
    time_flow_end_ns,
    src AS src_addr,
    dst AS dst_addr,
    src_port,
    dst_port,
    toUInt8(protocol) AS proto,
    bytes,
    packets,
    exporter AS sampler_address,
    greatest(sampling_rate, 1) AS sampling_rate,
    path,
    received_at,
    sample
FROM flow_landing
WHERE reason = '';

CREATE VIEW IF NOT EXISTS flows
(
    time_flow_start_ns Int64 COMMENT 'First byte, nanoseconds since the epoch',
    time_flow_end_ns Int64 COMMENT 'Last byte, nanoseconds since the epoch; a filter on it reads only what it must',
    src_addr LowCardinality(String) COMMENT 'Address of the sending NIC, canonical text',
    dst_addr LowCardinality(String) COMMENT 'Address of the receiving NIC, canonical text',
    src_port UInt16 COMMENT 'Source port; 0 where unknown',
    dst_port UInt16 COMMENT 'Destination port, 4791 for RoCEv2; 0 where unknown',
    proto UInt8 COMMENT 'IANA protocol number',
    bytes UInt64 COMMENT 'Bytes, sampling rate already applied',
    packets UInt64 COMMENT 'Packets, sampling rate already applied, count',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw it; empty where unknown',
    sampling_rate UInt32 COMMENT 'One packet in this many was sampled',
    path Array(LowCardinality(String)) COMMENT 'Switches the flow crossed, in order; empty where unknown',
    received_at DateTime64(3, 'UTC') COMMENT 'When it arrived, at the collector where that is known, UTC',
    sample UInt64 COMMENT 'Tells sampled packets apart that are alike in all else; 0 of flow records'
)
COMMENT 'Flow records, each observation once however often it was delivered'
AS
SELECT
    time_flow_start_ns,
    time_flow_end_ns,
    src_addr,
    dst_addr,
    src_port,
    dst_port,
    proto,
    bytes,
    packets,
    sampler_address,
    sampling_rate,
    path,
    received_at,
    sample
FROM flows_log FINAL;

CREATE TABLE IF NOT EXISTS flows_rejected_log
(
    received_at DateTime64(3, 'UTC') COMMENT 'When it arrived, UTC',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    reason LowCardinality(String) COMMENT 'Why it can not be used',
    record String COMMENT 'The original text; of a record that came as typed columns, their values as JSON' CODEC(ZSTD(3)),
    position UInt64 COMMENT 'Line or row number in the source, from 1; 0 where unknown',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(written_at)
PRIMARY KEY (source, position)
ORDER BY (source, position, reason, record)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'Rejected flow records; read it as flows_rejected';

CREATE MATERIALIZED VIEW IF NOT EXISTS flows_rejected_mv TO flows_rejected_log
AS
SELECT
    received_at,
    source,
    reason,
    if(
        record != '',
        record,
        toJSONString(
            CAST(
                (
                    time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, src_port, dst_port,
                    if(proto_name = '', toString(proto), proto_name), bytes, packets, sampler_address, sampling_rate, path
                ),
                'Tuple(time_flow_start_ns Int64, time_flow_end_ns Int64, src_addr String, dst_addr String, src_port UInt16,
                    dst_port UInt16, proto String, bytes UInt64, packets UInt64, sampler_address String, sampling_rate UInt32,
                    path Array(String))'
            )
        )
    ) AS record,
    position
FROM flow_landing
WHERE reason != '';

CREATE VIEW IF NOT EXISTS flows_rejected
(
    received_at DateTime64(3, 'UTC') COMMENT 'When it arrived, UTC',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    reason LowCardinality(String) COMMENT 'Why it can not be used',
    record String COMMENT 'The original text; of a record that came as typed columns, their values as JSON',
    position UInt64 COMMENT 'Line or row number in the source, from 1; 0 where unknown'
)
COMMENT 'Rejected flow records, each once a source and position'
AS
SELECT received_at, source, reason, record, position
FROM flows_rejected_log FINAL;

-- Records that can't be used, each with its reason and its original text.

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

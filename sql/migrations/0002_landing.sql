-- Where every way in lands: a typed table that stores nothing, the check of each record, and the ledger of files.

-- Whoever lands records gives the upper columns; the lower ones are derived from them, once, for all views on this table.
-- `reason` is that one judgement: empty where the record can be used, else the first of these that holds.
--   truncated, too_many_fields, bad_quoting   a line of CSV does not have the fields that its header names
--   not_protobuf           a message of GoFlow2 is damaged
--   not_json, not_an_object   what should be a JSON object is none; `truncated` where it ends too early
--   summary_line           a line that nfdump writes below the records: no record at all
--   bad_time, bad_port, bad_bytes, bad_packets, bad_sampling_rate, bad_path, bad_proto   a field is given but can't be read
--   bad_src_addr, bad_dst_addr   not an IPv4 or IPv6 address
--   bad_proto              missing, or neither an IANA number (0 to 255) nor a known name
--   bad_sampler_address    longer than 255 bytes, or not UTF-8
--   bad_bytes, bad_packets more than 2^63 - 1
--   no_time                a collector gives no start or no end, or writes 0, 1970 or 0000-00-00 because it did not understand the
--                          exporter's encoding of times: it can't be placed in a step. Where the collector gives its arrival, it
--                          counts towards the sums a minute (flow_pair_1m, switch_1m)
--   implausible_time       before the year 2000, or more than a day after the record arrived
--   negative_duration      ends before it starts
--   implausible_duration   longer than 7 days, the longest active timeout there is
--   zero_bytes             nothing was sent; or a collector dropped the counters of the reverse direction
--   same_endpoint          from an address to itself: such traffic crosses no network
CREATE TABLE IF NOT EXISTS flow_landing
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Line or row number in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it arrived, UTC',
    time_flow_start_ns Int64 COMMENT 'First byte, nanoseconds since the epoch',
    time_flow_end_ns Int64 COMMENT 'Last byte, nanoseconds since the epoch',
    src_addr LowCardinality(String) COMMENT 'Address of the sending NIC, as given',
    dst_addr LowCardinality(String) COMMENT 'Address of the receiving NIC, as given',
    src_port UInt16 COMMENT 'Source port; 0 where unknown',
    dst_port UInt16 COMMENT 'Destination port, 4791 for RoCEv2; 0 where unknown',
    proto UInt8 COMMENT 'IANA protocol number; not read where proto_name is given',
    proto_name LowCardinality(String) COMMENT 'Name or number of the protocol as text, in any case; empty where proto is given',
    bytes UInt64 COMMENT 'Bytes, sampling rate already applied',
    packets UInt64 COMMENT 'Packets, sampling rate already applied, count',
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch) that saw it, as given; empty where unknown',
    sampling_rate UInt32 DEFAULT 1 COMMENT 'One packet in this many was sampled; 0 where unknown',
    path Array(LowCardinality(String)) COMMENT 'Switches the flow crossed, in order; empty where unknown',
    sample UInt64 COMMENT 'Tells sampled packets apart that are alike in all else; 0 of flow records',
    problem LowCardinality(String) COMMENT 'Why a field could not be read; empty where all could',
    record String COMMENT 'The original text; empty where it came as typed columns',

    src LowCardinality(String)
        MATERIALIZED ifNull(replaceRegexpOne(toString(toIPv6OrNull(trimBoth(src_addr))), '^::ffff:([0-9.]+)$', '\\1'), '')
        COMMENT 'src_addr in canonical text, IPv4 where it is IPv4-mapped; empty where it is no address',
    dst LowCardinality(String)
        MATERIALIZED ifNull(replaceRegexpOne(toString(toIPv6OrNull(trimBoth(dst_addr))), '^::ffff:([0-9.]+)$', '\\1'), '')
        COMMENT 'dst_addr in canonical text, IPv4 where it is IPv4-mapped; empty where it is no address',
    exporter LowCardinality(String)
        MATERIALIZED replaceRegexpOne(trimBoth(sampler_address), '(?i)^::ffff:([0-9.]+)$', '\\1')
        COMMENT 'sampler_address without blanks around it, IPv4 where it is IPv4-mapped; names stay as they are',
    protocol UInt16
        MATERIALIZED if(
            proto_name = '',
            toUInt16(proto),
            transform(
                lower(trimBoth(proto_name)),
                [
                    'hopopt', 'icmp', 'igmp', 'ggp', 'ipip', 'ipv4', 'st', 'tcp', 'cbt', 'egp', 'igp', 'udp', 'dccp', 'ipv6',
                    'ipv6-route', 'ipv6-frag', 'idrp', 'rsvp', 'gre', 'esp', 'ah', 'ipv6-icmp', 'icmpv6', 'icmp6',
                    'ipv6-nonxt', 'ipv6-opts', 'eigrp', 'ospf', 'ospfigp', 'ospfv3', 'etherip', 'pim', 'ipcomp', 'vrrp',
                    'l2tp', 'isis', 'isis over ipv4', 'sctp', 'fc', 'udplite', 'mpls-in-ip', 'ethernet'
                ]::Array(String),
                [
                    0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 17, 33, 41,
                    43, 44, 45, 46, 47, 50, 51, 58, 58, 58,
                    59, 60, 88, 89, 89, 89, 97, 103, 108, 112,
                    115, 124, 124, 132, 133, 136, 137, 143
                ]::Array(UInt16),
                ifNull(toUInt8OrNull(trimBoth(proto_name))::Nullable(UInt16), 256::UInt16)
            )
        )
        COMMENT 'IANA protocol number; 256 where it could not be read',
    reason LowCardinality(String)
        MATERIALIZED multiIf(
            problem NOT IN ('', 'no_time'), problem,
            src = '', 'bad_src_addr',
            dst = '', 'bad_dst_addr',
            protocol > 255, 'bad_proto',
            length(exporter) > 255 OR NOT isValidUTF8(exporter), 'bad_sampler_address',
            bytes > 9223372036854775807, 'bad_bytes',
            packets > 9223372036854775807, 'bad_packets',
            problem != '', problem,
            least(time_flow_start_ns, time_flow_end_ns) < 946684800000000000
                OR greatest(time_flow_start_ns, time_flow_end_ns) - 86400000000000
                    > toUnixTimestamp64Milli(received_at) * 1000000, 'implausible_time',
            time_flow_end_ns < time_flow_start_ns, 'negative_duration',
            time_flow_end_ns - time_flow_start_ns > 7 * 86400000000000, 'implausible_duration',
            bytes = 0, 'zero_bytes',
            src = dst, 'same_endpoint',
            ''
        )
        COMMENT 'Why the record can not be used; empty where it can'
)
ENGINE = Null
COMMENT 'Flow records on their way in; views on it write flows, rollups and rejected records';

CREATE TABLE IF NOT EXISTS landing_counts_log
(
    landing String COMMENT 'Identity of the content, as in landings; empty for records that came otherwise',
    reason LowCardinality(String) COMMENT 'Why the records could not be used; empty for those that could',
    records UInt64 COMMENT 'Records, as delivered, count',
    written_at SimpleAggregateFunction(max, DateTime('UTC')) DEFAULT now() COMMENT 'When the last part of the row was written, UTC'
)
ENGINE = SummingMergeTree
PARTITION BY toYYYYMM(written_at)
ORDER BY (landing, reason)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'How many records of each file could be used, and how many not for which reason; read it with sum(records)';

-- Two views, since grouping all records by one key takes a third of the time that grouping them by two does.
CREATE MATERIALIZED VIEW IF NOT EXISTS landing_counts_mv TO landing_counts_log
AS
SELECT landing, '' AS reason, count() AS records
FROM flow_landing
WHERE flow_landing.reason = ''
GROUP BY landing;

CREATE MATERIALIZED VIEW IF NOT EXISTS landing_reject_counts_mv TO landing_counts_log
AS
SELECT landing, reason, count() AS records
FROM flow_landing
WHERE reason != ''
GROUP BY landing, reason;

CREATE TABLE IF NOT EXISTS landings_log
(
    landing String COMMENT 'Identity of the content: its digest and the format it was read as',
    source String COMMENT 'Name of the file it came from',
    size_bytes UInt64 COMMENT 'Size of the file as it was stored, bytes',
    status Enum8('started' = 1, 'done' = 2, 'failed' = 3) COMMENT 'Whether all of it has landed',
    records UInt64 COMMENT 'Records in it, count; 0 until it is done',
    landed UInt64 COMMENT 'Records that could be used, count; 0 until it is done',
    error String COMMENT 'Why it could not be read to its end; empty where it could',
    changed_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When this was noted, UTC'
)
ENGINE = ReplacingMergeTree(changed_at)
PARTITION BY toYYYYMM(changed_at)
ORDER BY landing
COMMENT 'Files whose landing was begun, one row each and state; read it as landings';

CREATE VIEW IF NOT EXISTS landings
(
    landing String COMMENT 'Identity of the content: its digest and the format it was read as',
    source String COMMENT 'Name of the file it came from',
    size_bytes UInt64 COMMENT 'Size of the file as it was stored, bytes',
    status Enum8('started' = 1, 'done' = 2, 'failed' = 3) COMMENT 'Whether all of it has landed',
    records UInt64 COMMENT 'Records in it, count; 0 until it is done',
    landed UInt64 COMMENT 'Records that could be used, count; 0 until it is done',
    error String COMMENT 'Why it could not be read to its end; empty where it could',
    changed_at DateTime64(6, 'UTC') COMMENT 'When it came to this state, UTC'
)
COMMENT 'Files that have landed or begun to, one row each; content that is done is never landed again'
AS
SELECT landing, source, size_bytes, status, records, landed, error, changed_at
FROM landings_log FINAL;

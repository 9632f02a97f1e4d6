-- Records as collectors write them. One view a collector names its fields; what all of them need is done once, in
-- flow_collected_mv: times in any notation, uptime counters that wrapped, sampling, reverse counters.

CREATE TABLE IF NOT EXISTS flow_collected
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Line or row number in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it arrived here, UTC',
    collector LowCardinality(String) COMMENT 'goflow2, pmacct, nfdump or akvorado: says what a time in plain digits counts (ns, s, ms, s), and whether bytes and packets are of the samples only (all but nfdump)',
    first_seen String COMMENT 'First byte, as text: plain digits, seconds with a fraction, or a date and time, UTC where it names no zone; empty or 0 where unknown',
    last_seen String COMMENT 'Last byte, as text, likewise',
    duration String COMMENT 'Seconds from first to last byte, as text; empty where unknown',
    arrived String COMMENT 'When the collector got it, as text, likewise; empty where unknown',
    src_addr String COMMENT 'Address of the sending NIC',
    dst_addr String COMMENT 'Address of the receiving NIC',
    src_port String COMMENT 'Source port as text; empty where unknown',
    dst_port String COMMENT 'Destination port as text; empty where unknown',
    proto String COMMENT 'IANA protocol number or name',
    bytes String COMMENT 'Bytes as text, as the collector counts them',
    packets String COMMENT 'Packets as text, as the collector counts them',
    reverse_bytes String COMMENT 'Bytes of the opposite direction as text, of a bidirectional record; empty or 0 of others',
    reverse_packets String COMMENT 'Packets of the opposite direction as text; empty or 0 where there are none',
    sampler_address String COMMENT 'Exporter (switch) that saw it; empty where unknown',
    sampling_rate String COMMENT 'One packet in this many was sampled, as text; empty or 0 where unknown',
    sample UInt64 COMMENT 'Tells sampled packets apart that are alike in all else; 0 of flow records',
    problem LowCardinality(String) COMMENT 'Why the record could not be taken apart; empty where it could',
    record String COMMENT 'The original text'
)
ENGINE = Null
COMMENT 'Records of any collector as text fields on their way in; a view on it brings them into flow_fields';

-- Times. Uptime counters wrap after 2^32 ms (49.7 days), and a collector then writes times that lie so far ahead. Such a time
-- can't be true, since it is after its own arrival. It is mended where 2^32 ms less bring it to at most an hour before the
-- arrival, which is the longest active timeout in use, or a minute after it, which clocks may differ.
-- Whole seconds beside an exact duration (nfdump's CSV): where in its second the flow began is lost. It is put at the earliest
-- time at which first, last and duration agree, so that the duration is exact.
-- Each stage is a subquery: the engine writes an alias of a function of arrays out wherever it is used.
CREATE MATERIALIZED VIEW IF NOT EXISTS flow_collected_mv TO flow_fields
AS
WITH
    given AS
    (
        SELECT
            *,
            transform(toString(collector), ['goflow2', 'nfdump'], [1, 1000000], 1000000000)::Int128 AS digit_ns,
            arrayMap(
                text -> multiIf(
                    text = '' OR startsWith(text, '0000-00-00'), 0,
                    match(text, '^[0-9]{1,19}$'), toInt128OrNull(text) * digit_ns,
                    match(text, '^[0-9]{1,10}\\.[0-9]{1,9}$'), (toDecimal128OrNull(text, 9) * 1000000000)::Nullable(Int128),
                    match(text, '^(19|20|21)[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})?$'),
                        toUnixTimestamp64Nano(parseDateTime64BestEffortOrNull(text, 9))::Nullable(Int128),
                    NULL
                ),
                [trimBoth(first_seen), trimBoth(last_seen), trimBoth(arrived)]
            ) AS given_ns
        FROM flow_collected
    ),
    known AS
    (
        -- What is within two days of 1970 is 0 in some zone. What no 64 bits hold is no time.
        SELECT
            *,
            arrayMap(
                ns -> multiIf(ns IS NULL OR ns > 9223372036854775807, NULL, ns < 2 * 86400000000000, 0, ns)::Nullable(Int64), given_ns
            ) AS known_ns
        FROM given
    ),
    arriving AS
    (
        -- An arrival that is yet to come is of a wrong clock or zone, and proves nothing.
        SELECT
            *,
            946684800000000000 AS year_2000_ns,
            if(
                known_ns[3] >= year_2000_ns AND known_ns[3] <= toUnixTimestamp64Milli(received_at) * 1000000 + 60000000000,
                assumeNotNull(known_ns[3]),
                0
            ) AS arrived_ns
        FROM known
    ),
    mended AS
    (
        SELECT
            *,
            arrayMap(
                ns -> if(
                    arrived_ns > 0 AND ns - 4294967296000000 BETWEEN arrived_ns - 3600000000000 AND arrived_ns + 60000000000,
                    ns - 4294967296000000,
                    ns
                ),
                [known_ns[1], known_ns[2]]
            ) AS mended_ns
        FROM arriving
    ),
    timed AS
    (
        SELECT
            *,
            mended_ns[1] AS first_ns,
            mended_ns[2] AS last_ns,
            if(
                match(duration, '^[0-9]{1,9}\\.[0-9]{1,9}$') AND match(first_seen, ':[0-9]{2}$') AND match(last_seen, ':[0-9]{2}$'),
                (toDecimal128OrNull(duration, 9) * 1000000000)::Nullable(Int64),
                NULL
            ) AS exact_ns,
            abs(last_ns - first_ns - exact_ns) < 1000000000 AS is_whole_seconds,
            if(is_whole_seconds, greatest(first_ns, last_ns - exact_ns), first_ns) AS start_ns,
            if(is_whole_seconds, start_ns + exact_ns, last_ns) AS end_ns,
            first_ns = 0 OR last_ns = 0 AS is_timeless,
            if(collector = 'nfdump', 1, greatest(ifNull(toUInt32OrNull(sampling_rate), 1), 1)) AS scale,
            ifNull(toUInt64OrNull(reverse_bytes), 0) > 0 AS has_reverse,
            arrayJoin(multiIf(NOT has_reverse, [0], trimBoth(bytes) = '0', [1], [0, 1])) AS is_reverse
        FROM mended
    ),
    counted AS
    (
        SELECT
            *,
            arrayMap(
                text -> if(scale = 1, text, ifNull(toString(toUInt64OrNull(text)::Nullable(UInt128) * scale), text)),
                if(is_reverse, [trimBoth(reverse_bytes), trimBoth(reverse_packets)], [trimBoth(bytes), trimBoth(packets)])
            ) AS counts
        FROM timed
    )
SELECT
    c.landing AS landing,
    c.source AS source,
    c.position AS position,
    if(arrived_ns > 0, fromUnixTimestamp64Milli(intDiv(arrived_ns, 1000000), 'UTC'), c.received_at) AS received_at,
    multiIf(is_timeless, toString(arrived_ns), start_ns IS NULL, c.first_seen, toString(start_ns)) AS time_flow_start_ns,
    multiIf(is_timeless, toString(arrived_ns), end_ns IS NULL, c.last_seen, toString(end_ns)) AS time_flow_end_ns,
    if(is_reverse, c.dst_addr, c.src_addr) AS src_addr,
    if(is_reverse, c.src_addr, c.dst_addr) AS dst_addr,
    if(is_reverse, c.dst_port, c.src_port) AS src_port,
    if(is_reverse, c.src_port, c.dst_port) AS dst_port,
    c.proto AS proto,
    counts[1] AS bytes,
    counts[2] AS packets,
    c.sampler_address AS sampler_address,
    c.sampling_rate AS sampling_rate,
    c.sample AS sample,
    multiIf(
        c.problem != '', c.problem,
        c.src_addr = '' AND c.dst_addr = '' AND c.first_seen = '' AND startsWith(c.record, '{') AND NOT isValidJSON(c.record),
            if(endsWith(c.record, '}'), 'not_json', 'truncated'),
        c.src_addr = '' AND c.dst_addr = '' AND c.first_seen = '' AND NOT startsWith(c.record, '{'),
            if(isValidJSON(c.record), 'not_an_object', 'not_json'),
        start_ns IS NULL OR end_ns IS NULL, 'bad_time',
        is_timeless, 'no_time',
        ''
    ) AS problem,
    c.record AS record
FROM counted AS c;

-- CSV of any collector: the fields are in the order of flow_collected, since whoever lands the lines has read the header.
CREATE MATERIALIZED VIEW IF NOT EXISTS collected_csv_mv TO flow_collected
AS
SELECT
    landing,
    source,
    position,
    received_at,
    collector,
    fields[1] AS first_seen,
    fields[2] AS last_seen,
    fields[3] AS duration,
    fields[4] AS arrived,
    fields[5] AS src_addr,
    fields[6] AS dst_addr,
    fields[7] AS src_port,
    fields[8] AS dst_port,
    fields[9] AS proto,
    fields[10] AS bytes,
    fields[11] AS packets,
    fields[12] AS reverse_bytes,
    fields[13] AS reverse_packets,
    fields[14] AS sampler_address,
    fields[15] AS sampling_rate,
    if(
        collector = 'nfdump' AND match(record, '^(Summary|No matched flows|flows,bytes,packets,.*|[0-9]+(,[0-9]+){5})$'),
        'summary_line',
        problem
    ) AS problem,
    record
FROM flow_csv_fields
WHERE collector != '';

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

-- pmacct (nfacctd, pmacctd, sfacctd): JSON with the fields it is configured to aggregate by. Times are local time as text, seconds
-- since the epoch with a fraction, or RFC 3339, as configured. Counts are of the sampled packets, and sampling_rate is the rate,
-- unless it renormalises: then it is 1.
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

-- Records as collectors write them. For each collector one view names its fields as below; what holds for all of them is done
-- here, once: times in any notation, uptime counters that wrapped, sampling, reverse counters.

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
CREATE MATERIALIZED VIEW IF NOT EXISTS flow_collected_mv TO flow_fields
AS
WITH
    946684800000000000 AS year_2000_ns,
    transform(toString(c.collector), ['goflow2', 'nfdump'], [1, 1000000], 1000000000)::Int128 AS digit_ns,
    arrayMap(
        text -> multiIf(
            text = '' OR startsWith(text, '0000-00-00'), 0,
            match(text, '^[0-9]{1,19}$'), toInt128OrNull(text) * digit_ns,
            match(text, '^[0-9]{1,10}\\.[0-9]{1,9}$'), (toDecimal128OrNull(text, 9) * 1000000000)::Nullable(Int128),
            match(text, '^(19|20|21)[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})?$'),
                toUnixTimestamp64Nano(parseDateTime64BestEffortOrNull(text, 9))::Nullable(Int128),
            NULL
        ),
        [trimBoth(c.first_seen), trimBoth(c.last_seen), trimBoth(c.arrived)]
    ) AS given_ns,
    -- What is within two days of 1970 is 0 in some zone. What no 64 bits hold is no time.
    arrayMap(
        ns -> multiIf(ns IS NULL OR ns > 9223372036854775807, NULL, ns < 2 * 86400000000000, 0, ns)::Nullable(Int64), given_ns
    ) AS known_ns,
    -- An arrival that is yet to come is of a wrong clock or zone, and proves nothing.
    if(
        known_ns[3] >= year_2000_ns AND known_ns[3] <= toUnixTimestamp64Milli(c.received_at) * 1000000 + 60000000000,
        assumeNotNull(known_ns[3]),
        0
    ) AS arrived_ns,
    arrayMap(
        ns -> if(
            arrived_ns > 0 AND ns - 4294967296000000 BETWEEN arrived_ns - 3600000000000 AND arrived_ns + 60000000000,
            ns - 4294967296000000,
            ns
        ),
        [known_ns[1], known_ns[2]]
    ) AS mended_ns,
    mended_ns[1] AS first_ns,
    mended_ns[2] AS last_ns,
    if(
        match(c.duration, '^[0-9]{1,9}\\.[0-9]{1,9}$') AND match(c.first_seen, ':[0-9]{2}$') AND match(c.last_seen, ':[0-9]{2}$'),
        (toDecimal128OrNull(c.duration, 9) * 1000000000)::Nullable(Int64),
        NULL
    ) AS exact_ns,
    abs(last_ns - first_ns - exact_ns) < 1000000000 AS is_whole_seconds,
    if(is_whole_seconds, greatest(first_ns, last_ns - exact_ns), first_ns) AS start_ns,
    if(is_whole_seconds, start_ns + exact_ns, last_ns) AS end_ns,
    first_ns = 0 OR last_ns = 0 AS is_timeless,

    if(c.collector = 'nfdump', 1, greatest(ifNull(toUInt32OrNull(c.sampling_rate), 1), 1)) AS scale,
    ifNull(toUInt64OrNull(c.reverse_bytes), 0) > 0 AS has_reverse,
    arrayJoin(multiIf(NOT has_reverse, [0], trimBoth(c.bytes) = '0', [1], [0, 1])) AS is_reverse,
    arrayMap(
        text -> if(scale = 1, text, ifNull(toString(toUInt64OrNull(text)::Nullable(UInt128) * scale), text)),
        if(is_reverse, [trimBoth(c.reverse_bytes), trimBoth(c.reverse_packets)], [trimBoth(c.bytes), trimBoth(c.packets)])
    ) AS counts
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
FROM flow_collected AS c;

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

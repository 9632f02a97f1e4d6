-- Text on its way in. A line is parsed here, keeps its original text, and spoils nothing but itself.

-- Every field as text, whichever format it came in. An empty field is an unknown one.
CREATE TABLE IF NOT EXISTS flow_fields
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Line or row number in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it arrived, UTC',
    time_flow_start_ns String COMMENT 'First byte, nanoseconds since the epoch, as text',
    time_flow_end_ns String COMMENT 'Last byte, nanoseconds since the epoch, as text',
    src_addr String COMMENT 'Address of the sending NIC',
    dst_addr String COMMENT 'Address of the receiving NIC',
    src_port String COMMENT 'Source port as text; empty where unknown',
    dst_port String COMMENT 'Destination port as text; empty where unknown',
    proto String COMMENT 'IANA protocol number or name',
    bytes String COMMENT 'Bytes, sampling rate already applied, as text',
    packets String COMMENT 'Packets, sampling rate already applied, as text',
    sampler_address String COMMENT 'Exporter (switch) that saw it; empty where unknown',
    sampling_rate String COMMENT 'One packet in this many was sampled, as text; empty or 0 where unknown',
    path String COMMENT 'Switches the flow crossed, in order: a list in square brackets, or names parted by |, ; or blanks',
    sample UInt64 COMMENT 'Tells sampled packets apart that are alike in all else; 0 of flow records',
    problem LowCardinality(String) COMMENT 'Why the line could not be taken apart; empty where it could',
    record String COMMENT 'The original text; empty where there is none'
)
ENGINE = Null
COMMENT 'Flow records as text fields on their way in; a view on it reads them into flow_landing';

CREATE MATERIALIZED VIEW IF NOT EXISTS flow_fields_mv TO flow_landing
AS
WITH
    toInt64OrNull(trimBoth(f.time_flow_start_ns)) AS start_ns,
    toInt64OrNull(trimBoth(f.time_flow_end_ns)) AS end_ns,
    trimBoth(f.src_port) AS src_port_text,
    trimBoth(f.dst_port) AS dst_port_text,
    if(src_port_text = '', 0, toUInt16OrNull(src_port_text)) AS source_port,
    if(dst_port_text = '', 0, toUInt16OrNull(dst_port_text)) AS destination_port,
    toUInt64OrNull(trimBoth(f.bytes)) AS byte_count,
    toUInt64OrNull(trimBoth(f.packets)) AS packet_count,
    trimBoth(f.sampling_rate) AS rate_text,
    if(rate_text = '', 1, toUInt32OrNull(rate_text)) AS rate,
    trimBoth(f.path) AS path_text,
    multiIf(
        path_text = '', []::Array(String),
        startsWith(path_text, '['), JSONExtract(replaceAll(path_text, '\'', '"'), 'Array(String)'),
        splitByRegexp('[|;\\s]+', path_text)
    ) AS hops
SELECT
    f.landing AS landing,
    f.source AS source,
    f.position AS position,
    f.received_at AS received_at,
    ifNull(start_ns, 0) AS time_flow_start_ns,
    ifNull(end_ns, 0) AS time_flow_end_ns,
    f.src_addr AS src_addr,
    f.dst_addr AS dst_addr,
    ifNull(source_port, 0) AS src_port,
    ifNull(destination_port, 0) AS dst_port,
    trimBoth(f.proto) AS proto_name,
    ifNull(byte_count, 0) AS bytes,
    ifNull(packet_count, 0) AS packets,
    f.sampler_address AS sampler_address,
    ifNull(rate, 0) AS sampling_rate,
    hops AS path,
    f.sample AS sample,
    multiIf(
        f.problem != '', f.problem,
        start_ns IS NULL OR end_ns IS NULL, 'bad_time',
        proto_name = '', 'bad_proto',
        source_port IS NULL OR destination_port IS NULL, 'bad_port',
        byte_count IS NULL, 'bad_bytes',
        packet_count IS NULL, 'bad_packets',
        rate IS NULL, 'bad_sampling_rate',
        startsWith(path_text, '[') AND empty(hops) AND NOT match(path_text, '^\\[\\s*\\]$') OR NOT isValidUTF8(path_text), 'bad_path',
        ''
    ) AS problem,
    if(
        f.record != '',
        f.record,
        toJSONString(
            map(
                'time_flow_start_ns', f.time_flow_start_ns, 'time_flow_end_ns', f.time_flow_end_ns,
                'src_addr', f.src_addr, 'dst_addr', f.dst_addr, 'src_port', f.src_port, 'dst_port', f.dst_port,
                'proto', f.proto, 'bytes', f.bytes, 'packets', f.packets, 'sampler_address', f.sampler_address,
                'sampling_rate', f.sampling_rate, 'path', f.path
            )
        )
    ) AS record
FROM flow_fields AS f;

-- Lines of CSV. What the columns are is said by the file's header, which whoever lands the lines has read.
CREATE TABLE IF NOT EXISTS flow_csv_lines
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Line number in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it arrived, UTC',
    collector LowCardinality(String) COMMENT 'Tool that wrote it, as in flow_collected; empty where the columns are those of flow_fields',
    width UInt16 COMMENT 'Fields that a line should have, count',
    places Array(UInt16) COMMENT 'Which fields, from 1, are the wanted ones, in the order of flow_csv_fields; 0 where there is none',
    line String COMMENT 'The line, with or without its end'
)
ENGINE = Null
COMMENT 'Lines of CSV files on their way in; a view on it takes them apart into flow_csv_fields';

CREATE TABLE IF NOT EXISTS flow_csv_fields
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Line number in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') COMMENT 'When it arrived, UTC',
    collector LowCardinality(String) COMMENT 'Tool that wrote it, as in flow_collected; empty where the columns are those of flow_fields',
    fields Array(String) COMMENT 'Without a collector time_flow_start_ns to path as in flow_fields, with one first_seen to sampling_rate as in flow_collected; empty where the file has none',
    problem LowCardinality(String) COMMENT 'Why the line could not be taken apart; empty where it could',
    record String COMMENT 'The original text'
)
ENGINE = Null
COMMENT 'Lines of CSV files taken apart; views on it name the fields';

CREATE MATERIALIZED VIEW IF NOT EXISTS flow_csv_lines_mv TO flow_csv_fields
AS
WITH
    trim(TRAILING '\r\n' FROM l.line) AS text,
    position(text, '"') > 0 AS is_quoted,
    -- Split at the quotes, every second piece was within them. An empty piece between two such was a quote written twice.
    splitByChar('"', text) AS pieces,
    if(
        is_quoted,
        splitByChar(
            '\x1f',
            arrayStringConcat(
                arrayMap(
                    (piece, i) -> multiIf(
                        i % 2 = 0, piece,
                        piece = '' AND i > 1 AND i < length(pieces), '"',
                        replaceAll(piece, ',', '\x1f')
                    ),
                    pieces,
                    arrayEnumerate(pieces)
                )
            )
        ),
        splitByChar(',', text)
    ) AS split,
    if(
        is_quoted,
        match(text, '^(?:[^",]*|\\s*"(?:[^"]|"")*"\\s*)(?:,(?:[^",]*|\\s*"(?:[^"]|"")*"\\s*))*$'),
        1
    ) AS is_well_quoted
SELECT
    l.landing AS landing,
    l.source AS source,
    l.position AS position,
    l.received_at AS received_at,
    l.collector AS collector,
    arrayMap(place -> split[place], l.places) AS fields,
    multiIf(
        NOT is_well_quoted, 'bad_quoting',
        length(split) < l.width, 'truncated',
        length(split) > l.width, 'too_many_fields',
        ''
    ) AS problem,
    text AS record
FROM flow_csv_lines AS l
WHERE trimBoth(text) != '';

CREATE MATERIALIZED VIEW IF NOT EXISTS flow_csv_fields_mv TO flow_fields
AS
SELECT
    landing,
    source,
    position,
    received_at,
    fields[1] AS time_flow_start_ns,
    fields[2] AS time_flow_end_ns,
    fields[3] AS src_addr,
    fields[4] AS dst_addr,
    fields[5] AS src_port,
    fields[6] AS dst_port,
    fields[7] AS proto,
    fields[8] AS bytes,
    fields[9] AS packets,
    fields[10] AS sampler_address,
    fields[11] AS sampling_rate,
    fields[12] AS path,
    problem,
    record
FROM flow_csv_fields
WHERE collector = '';

-- Lines of JSON, one object each with the canonical names. Values may be numbers or text; other names are not looked at.
CREATE TABLE IF NOT EXISTS flow_json_lines
(
    landing LowCardinality(String) COMMENT 'Identity of the file or stream it came with, as in landings; empty where there is none',
    source LowCardinality(String) COMMENT 'Name of the file or stream it came from',
    position UInt64 COMMENT 'Line number in the source, from 1; 0 where unknown',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When it arrived, UTC',
    line String COMMENT 'The line, with or without its end'
)
ENGINE = Null
COMMENT 'Lines of JSON files or streams on their way in; a view on it takes them apart into flow_fields';

CREATE MATERIALIZED VIEW IF NOT EXISTS flow_json_lines_mv TO flow_fields
AS
WITH
    trimBoth(trim(TRAILING '\r\n' FROM l.line)) AS text,
    JSONExtract(
        text,
        'Tuple(time_flow_start_ns String, time_flow_end_ns String, src_addr String, dst_addr String, src_port String,
            dst_port String, proto String, bytes String, packets String, sampler_address String, sampling_rate String,
            path String)'
    ) AS fields,
    -- What begins as an object and gave a field is one: no need to parse it once more.
    if(startsWith(text, '{') AND fields.src_addr != '', 'Object', toString(JSONType(text))) AS kind
SELECT
    l.landing AS landing,
    l.source AS source,
    l.position AS position,
    l.received_at AS received_at,
    fields.time_flow_start_ns AS time_flow_start_ns,
    fields.time_flow_end_ns AS time_flow_end_ns,
    fields.src_addr AS src_addr,
    fields.dst_addr AS dst_addr,
    fields.src_port AS src_port,
    fields.dst_port AS dst_port,
    fields.proto AS proto,
    fields.bytes AS bytes,
    fields.packets AS packets,
    fields.sampler_address AS sampler_address,
    fields.sampling_rate AS sampling_rate,
    fields.path AS path,
    multiIf(
        kind = 'Object', '',
        kind != 'Null' OR text = 'null', 'not_an_object',
        startsWith(text, '{') AND NOT endsWith(text, '}'), 'truncated',
        'not_json'
    ) AS problem,
    text AS record
FROM flow_json_lines AS l
WHERE text != '';

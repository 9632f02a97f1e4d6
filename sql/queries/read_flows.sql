-- Purpose: read the flow records that end in a span of time, between endpoints of any topology ever loaded.
-- Parameters: from_ns, to_ns: the span [from, to) of the time at which flows end, nanoseconds since the epoch;
--   first, last: the addresses that senders are between, these included;
--   addresses: where not empty, only flows of which so many `ends` are among these: 2 between them, 1 beside them.
-- Result: the columns of a flow record but sampling_rate, addresses as dictionaries, the path as the dictionary `way`, its
--   switches one a line; sorted so that exact repeats, which are not folded here, follow one another, the first of them
--   by its way; of repeats with several ways a merge of parts keeps one. store/pull.py leaves the order out, or folds
--   repeats by its keys, where that costs less. One day is one part of the table and one minute one prefix of its key,
--   so that little else is read.
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
    toLowCardinality(arrayStringConcat(path, '\n')) AS way
FROM flows_log
WHERE time_flow_end_ns >= {from_ns:Int64}
    AND time_flow_end_ns < {to_ns:Int64}
    AND src_addr >= {first:String}
    AND src_addr <= {last:String}
    AND src_addr IN (SELECT endpoint FROM topology_log)
    AND dst_addr IN (SELECT endpoint FROM topology_log)
    AND (
        empty({addresses:Array(String)})
        OR (src_addr IN (SELECT arrayJoin({addresses:Array(String)})))
        + (dst_addr IN (SELECT arrayJoin({addresses:Array(String)}))) = {ends:UInt8}
    )
ORDER BY
    src_addr, dst_addr, time_flow_start_ns, time_flow_end_ns,
    src_port, dst_port, proto, bytes, packets, sampler_address,
    way
SETTINGS output_format_arrow_low_cardinality_as_dictionary = 1;

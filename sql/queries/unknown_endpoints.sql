-- Purpose: count the traffic of addresses that the topology does not know, to say so in a summary.
-- Parameters: from_ns, to_ns: the span [from, to) of time, to the minute, nanoseconds since the epoch; most: how many addresses.
-- Result: one row. flows UInt64: flow records with an unknown end, as delivered; addresses UInt64: unknown addresses;
--   busiest Array(Tuple(String, UInt64)): those with the most flow records, and how many.
WITH
    touching AS
    (
        SELECT src_addr, dst_addr, src_addr NOT IN (SELECT endpoint FROM topology) AS is_src_unknown,
            dst_addr NOT IN (SELECT endpoint FROM topology) AS is_dst_unknown, sum(f.flows) AS flows
        FROM flow_pair_1m_log AS f
        WHERE minute >= toStartOfMinute(fromUnixTimestamp64Nano({from_ns:Int64}, 'UTC'))
            AND minute < fromUnixTimestamp64Nano({to_ns:Int64}, 'UTC')
        GROUP BY src_addr, dst_addr
        HAVING is_src_unknown OR is_dst_unknown
    ),
    unknown AS
    (
        SELECT toString(address) AS address, sum(t.flows) AS flows
        FROM touching AS t
        ARRAY JOIN arrayConcat(if(is_src_unknown, [src_addr], []), if(is_dst_unknown, [dst_addr], [])) AS address
        GROUP BY address
    )
SELECT
    (SELECT sum(flows) FROM touching) AS flows,
    count() AS addresses,
    arraySlice(arraySort(pair -> (-toInt64(pair.2), pair.1), groupArray((address, u.flows))), 1, {most:UInt32}) AS busiest
FROM unknown AS u;

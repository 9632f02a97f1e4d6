-- Purpose: read who sent how much to whom, and which exporters saw it, to check a topology against it.
-- Parameters: from_ns, until_ns: the span, nanoseconds since the epoch; minutes that begin in it count.
-- Result: src_addr, dst_addr, exporter String (empty where unknown), bytes UInt64, as delivered; in order.
SELECT
    p.src_addr::String AS src_addr,
    p.dst_addr::String AS dst_addr,
    p.sampler_address::String AS exporter,
    sum(p.bytes) AS bytes
FROM flow_pair_1m_log AS p
WHERE p.minute >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
    AND p.minute <= toDateTime(intDiv({until_ns:Int64}, 1000000000), 'UTC')
GROUP BY p.src_addr, p.dst_addr, p.sampler_address
ORDER BY p.src_addr, p.dst_addr, p.sampler_address;

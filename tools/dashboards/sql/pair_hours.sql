-- Purpose: makes the traffic of the jobs' pairs by hour, as the leaf of the sender saw it.
-- Parameters: from_ns, hours.
INSERT INTO flow_pair_1h_log (hour, src_addr, dst_addr, sampler_address, flows, bytes, packets)
SELECT
    toStartOfHour(toDateTime(intDiv({from_ns:Int64}, 1000000000) + number * 3600, 'UTC')),
    p.src_addr, p.dst_addr, t.leaf, 1200, toUInt64(2e11 * if(p.kind = 'DP', 1, 0.3)), 50000000
FROM pairs_log AS p
INNER JOIN (SELECT endpoint, leaf FROM topology_log) AS t ON p.src_addr = t.endpoint
CROSS JOIN numbers({hours:UInt32}) AS n;

-- Purpose: makes the ways of the jobs' pairs in the last minutes: through one of four spines, one of which is slow in the end.
-- Parameters: end_ns.
INSERT INTO flow_way_1m_log (minute, src_addr, dst_addr, way, sampler_address, flows, bytes, busy_ns)
SELECT
    toDateTime(intDiv({end_ns:Int64}, 1000000000) - 60 * (number + 1), 'UTC'),
    p.src_addr, p.dst_addr,
    if(s.leaf = d.leaf, [s.leaf], [s.leaf, concat('spine-', toString(cityHash64(p.src_addr, p.dst_addr) % 4)), d.leaf]) AS way,
    s.leaf, 20, 2000000000 AS bytes,
    toUInt64(bytes / 46 * (1 + 0.05 * (cityHash64(number, p.src_addr) % 2000 / 1000 - 1)) * if(has(way, 'spine-2') AND number < 5, 1.6, 1))
FROM pairs_log AS p
INNER JOIN (SELECT endpoint, leaf FROM topology_log) AS s ON p.src_addr = s.endpoint
INNER JOIN (SELECT endpoint, leaf FROM topology_log) AS d ON p.dst_addr = d.endpoint
CROSS JOIN numbers(120) AS n;

-- Purpose: makes flow records of the last seconds of the data; the sender that is to blame is slow.
-- Parameters: end_ns, raw_s, slow, the endpoint that sends at 40 % of its speed.
INSERT INTO flows_log
    (time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, src_port, dst_port, proto, bytes, packets, sampler_address, sampling_rate, received_at)
SELECT
    start_ns,
    start_ns + toInt64(bytes / 46 * if(p.src_addr = {slow:String}, 2.5, 1) * (1 + 0.05 * (cityHash64(p.number, p.src_addr) % 2000 / 1000 - 1))) AS end_ns,
    p.src_addr, p.dst_addr, 49152 + p.number % 8, 4791, 17,
    if(p.kind = 'DP', 100000000, 33554432) AS bytes, intDiv(bytes, 4096), t.leaf, 1,
    fromUnixTimestamp64Milli(intDiv(end_ns, 1000000) + 1000)
FROM
(
    SELECT src_addr, dst_addr, kind, number, {end_ns:Int64} - toInt64({raw_s:Float64} * 1e9) + toInt64(number * 250000000) + cityHash64(dst_addr) % 3000000 AS start_ns
    FROM pairs_log
    CROSS JOIN numbers(toUInt64({raw_s:Float64} * 4) - 1) AS k
) AS p
INNER JOIN (SELECT endpoint, leaf FROM topology_log) AS t ON p.src_addr = t.endpoint;

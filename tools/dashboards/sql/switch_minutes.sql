-- Purpose: makes the traffic of exporters by minute (and, from it, by hour): one spine carries too much, one leaf is slow.
-- Parameters: from_ns, windows, leaves.
INSERT INTO switch_1m_log (minute, sampler_address, flows, bytes, packets, first_start_ns, last_end_ns, last_received_at)
SELECT
    toDateTime(intDiv(start_ns, 1000000000), 'UTC') AS minute,
    if(e < {leaves:UInt32}, concat('leaf-', toString(intDiv(e, 8)), '-', toString(e % 8)), concat('spine-', toString(e - {leaves:UInt32}))),
    60000 AS flows,
    toUInt64(6e11 * (1 + 0.05 * (cityHash64(e, w) % 2000 / 1000 - 1))
        * if(e = {leaves:UInt32} + 2, 1.6, 1) * if(e = 5 AND w > {windows:UInt64} * 0.93, 0.55, 1)) AS bytes,
    intDiv(bytes, 4096),
    start_ns,
    start_ns + 59990000000,
    fromUnixTimestamp64Milli(intDiv(start_ns, 1000000) + 61000 + if(e = 1, 25000, e * 10))
FROM
(
    SELECT number % ({leaves:UInt32} + 8) AS e, intDiv(number, {leaves:UInt32} + 8) AS w, {from_ns:Int64} + toInt64(w) * 60000000000 AS start_ns
    FROM numbers({windows:UInt64} * ({leaves:UInt32} + 8))
);

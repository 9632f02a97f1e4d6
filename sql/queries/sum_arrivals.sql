-- Purpose: count the flows of a day by second, as arrivals_mv does when they land; each record counts once here.
-- Parameters: day_s: start of the day, Unix seconds.
-- Result: none.
INSERT INTO arrivals_log (second, records, fingerprint, lowest_hash, highest_hash, last_received_at, first_written_at)
WITH
    cityHash64(
        time_flow_start_ns, time_flow_end_ns, cityHash64(src_addr), cityHash64(dst_addr), src_port, dst_port, toUInt16(proto), bytes,
        packets, cityHash64(sampler_address)
    ) AS hash
SELECT
    toDateTime(intDiv(time_flow_end_ns, 1000000000), 'UTC') AS second,
    count() AS records,
    sum(hash) AS fingerprint,
    min(hash) AS lowest_hash,
    max(hash) AS highest_hash,
    max(f.received_at) AS last_received_at,
    min(f.written_at) AS first_written_at
FROM flows_log AS f FINAL
WHERE time_flow_end_ns >= {day_s:Int64} * 1000000000 AND time_flow_end_ns < ({day_s:Int64} + 86400) * 1000000000
GROUP BY second;

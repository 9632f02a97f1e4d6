-- Purpose: sum the flows of a day by minute, as flow_minutes_mv does when they land; the views on flow_minutes do the rest.
-- Parameters: day_s: start of the day, Unix seconds.
-- Result: none.
INSERT INTO flow_minutes
    (minute, src_addr, dst_addr, way, sampler_address, flows, bytes, packets, busy_ns, first_start_ns, last_end_ns, last_received_at)
SELECT
    toDateTime(intDiv(time_flow_end_ns, 60000000000) * 60, 'UTC') AS minute,
    f.src_addr,
    f.dst_addr,
    f.path AS way,
    f.sampler_address,
    count() AS flows,
    sum(f.bytes) AS bytes,
    sum(f.packets) AS packets,
    sum(toUInt64(f.time_flow_end_ns - f.time_flow_start_ns)) AS busy_ns,
    min(f.time_flow_start_ns) AS first_start_ns,
    max(f.time_flow_end_ns) AS last_end_ns,
    max(f.received_at) AS last_received_at
FROM flows AS f
WHERE time_flow_end_ns >= {day_s:Int64} * 1000000000 AND time_flow_end_ns < ({day_s:Int64} + 86400) * 1000000000
GROUP BY minute, f.src_addr, f.dst_addr, way, f.sampler_address;

-- Purpose: sum the flows of a day by second and exporter, as switch_1s_mv does when they land.
-- Parameters: day_s: start of the day, Unix seconds.
-- Result: none.
INSERT INTO switch_1s_log (second, sampler_address, flows, bytes, packets)
SELECT
    toDateTime(intDiv(time_flow_end_ns, 1000000000), 'UTC') AS second,
    f.sampler_address,
    count() AS flows,
    sum(f.bytes) AS bytes,
    sum(f.packets) AS packets
FROM flows AS f
WHERE time_flow_end_ns >= {day_s:Int64} * 1000000000 AND time_flow_end_ns < ({day_s:Int64} + 86400) * 1000000000
GROUP BY second, f.sampler_address;

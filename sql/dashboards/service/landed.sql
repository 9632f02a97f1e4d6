-- Records that landed, a second, over time.
WITH greatest($__interval_s, resolution_s) AS width_s
SELECT toDateTime(intDiv(toUnixTimestamp(t.time), width_s) * width_s) AS time, sum(flows) / any(width_s) AS "Records"
FROM switch_traffic(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'), points = 150) AS t
GROUP BY time
ORDER BY time

-- Purpose: note how far exporters have come, from their traffic by minute, as exporter_marks_mv does when records land.
-- Parameters: none.
-- Result: none.
INSERT INTO exporter_marks_log (sampler_address, mark_ns, ahead_ns, last_received_at)
SELECT
    sampler_address,
    max(least(last_end_ns, toUnixTimestamp64Milli(s.last_received_at) * 1000000)) AS mark_ns,
    max(last_end_ns - (toUnixTimestamp64Milli(s.last_received_at) * 1000000)) AS ahead_ns,
    max(s.last_received_at) AS last_received_at
FROM switch_1m_log AS s
GROUP BY sampler_address;

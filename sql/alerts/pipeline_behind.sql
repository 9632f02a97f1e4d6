-- Purpose: see how many closed windows wait to be worked; no row where no service has said so lately.
-- Range: how old what the service noted last may be.
-- Result: value Float64: windows, count; from_ms, to_ms String: the last hour.
SELECT
    argMax(m.value, m.checked_at) AS value,
    toString(toUnixTimestamp($__toTime - INTERVAL 1 HOUR)) || '000' AS from_ms,
    toString(toUnixTimestamp($__toTime)) || '000' AS to_ms
FROM measures_log AS m
WHERE m.measure = 'windows_behind' AND $__timeFilter(m.checked_at)
GROUP BY m.measure

-- Purpose: see how many closed windows wait to be worked; no row where no service has said so lately.
-- Range: how old what the service noted last may be.
-- Result: windows Float64: count.
SELECT argMax(value, checked_at) AS windows
FROM measures
WHERE measure = 'windows_behind' AND $__timeFilter(checked_at)
GROUP BY measure

-- Windows in the span whose last working failed, or to which records came late.
SELECT
    window_start AS "Window", flows AS "Records", late_flows AS "Late", status::String AS "Status", attempts AS "Attempts",
    worked_at AS "Worked", error AS "Error"
FROM windows
WHERE $__timeFilter(window_start) AND (status = 'failed' OR late_flows > 0)
ORDER BY status DESC, window_start DESC
LIMIT 100

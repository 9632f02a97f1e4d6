-- Purpose: read the clock offsets that windows found, as they were known before a window.
-- Parameters: from_ns, before_ns: the windows that start in [from, before), nanoseconds since the epoch.
-- Result: exporter String, window_start_ns Int64, clock_offset_s Float64, clock_uncertainty_s Float64; by exporter and
--   window, one row each.
WITH live AS
(
    SELECT
        revision,
        minOrNull(from_time) OVER (ORDER BY revision ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS until_time
    FROM revisions
    WHERE job_id = '' AND window_start < fromUnixTimestamp64Nano({before_ns:Int64})
)
SELECT
    toString(l.exporter) AS exporter,
    toUnixTimestamp64Nano(l.window_start) AS window_start_ns,
    assumeNotNull(l.clock_offset_s) AS clock_offset_s,
    assumeNotNull(l.clock_uncertainty_s) AS clock_uncertainty_s
FROM exporters_log AS l
INNER JOIN live AS r ON l.revision = r.revision
WHERE l.window_start >= fromUnixTimestamp64Nano({from_ns:Int64})
    AND l.clock_offset_s IS NOT NULL
    AND (until_time IS NULL OR l.window_start < until_time)
ORDER BY exporter, window_start_ns;

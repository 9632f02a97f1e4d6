-- Purpose: read the clock offsets that windows found, as they were known before a window.
-- Parameters: from_ns, before_ns: the windows that start in [from, before), nanoseconds since the epoch.
-- Result: exporter String, window_start_ns Int64, clock_offset_s Float64, clock_uncertainty_s Float64; by exporter and
--   window, one row each.
WITH cut AS
(
    SELECT
        job_id,
        revision,
        min(from_time) OVER (ORDER BY revision DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS until_time
    FROM revisions
    WHERE cuts AND job_id = '' AND window_start < fromUnixTimestamp64Nano({before_ns:Int64})
)
SELECT
    toString(l.exporter) AS exporter,
    toUnixTimestamp64Nano(l.window_start) AS window_start_ns,
    assumeNotNull(l.clock_offset_s) AS clock_offset_s,
    assumeNotNull(l.clock_uncertainty_s) AS clock_uncertainty_s
FROM (SELECT *, '' AS job_id FROM exporters_log) AS l
ASOF LEFT JOIN cut AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE l.window_start >= fromUnixTimestamp64Nano({from_ns:Int64})
    AND l.clock_offset_s IS NOT NULL
    AND (c.revision = 0 OR l.window_start < c.until_time)
    AND l.revision IN (SELECT revision FROM published WHERE window_start < fromUnixTimestamp64Nano({before_ns:Int64}))
ORDER BY exporter, window_start_ns;

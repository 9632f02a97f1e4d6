-- Purpose: find exporters whose clocks are off, or that close flows too late for the steps of the jobs.
-- Parameters: none.
-- Result: exporter String; clock_offset_s, idle_timeout_s Nullable(Float64), seconds; step_s Nullable(Float64): median step
--   of the fastest job, seconds, NULL where there is none; by exporter.
SELECT
    exporter,
    clock_offset_s,
    idle_timeout_s,
    (SELECT minOrNull(step_s_median) FROM jobs WHERE step_s_median > 0) AS step_s
FROM exporters
ORDER BY exporter;

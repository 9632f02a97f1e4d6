-- Purpose: see how long nothing has come from each exporter; one that was silent for a day is taken for removed.
-- Range: how old what the service noted last may be.
-- Result: exporter String; silent_s Float64: since its last record arrived, seconds; 0 where an open incident of warning or worse
--   names it, which has an alert of its own.
SELECT
    label AS exporter,
    if(
        label IN
        (
            SELECT arrayJoin(arrayPushBack(may_also_be, subject))
            FROM incidents
            WHERE kind = 'telemetry' AND status = 'open' AND severity != 'info'
        ),
        0, argMax(value, checked_at)
    ) AS silent_s
FROM measures
WHERE measure = 'exporter_silent_seconds' AND $__timeFilter(checked_at)
GROUP BY label
HAVING silent_s < 86400
ORDER BY exporter

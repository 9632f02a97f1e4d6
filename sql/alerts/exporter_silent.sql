-- Purpose: see how long nothing has come from each exporter; one that was silent for a day is taken for removed.
-- Range: how old what the service noted last may be.
-- Result: exporter String, 'all' in one row where none of several has sent anything for 5 minutes; silent_s Float64: since its last
--   record arrived, seconds; 0 where an open incident of warning or worse names it, which has an alert of its own.
WITH
    (
        SELECT groupUniqArrayArray(arrayPushBack(may_also_be, subject))
        FROM incidents
        WHERE kind = 'telemetry' AND status = 'open' AND severity != 'info'
    ) AS named,
    heard AS
    (
        SELECT label, argMax(value, checked_at) AS since_s
        FROM measures
        WHERE measure = 'exporter_silent_seconds' AND $__timeFilter(checked_at)
        GROUP BY label
        HAVING since_s < 86400
    ),
    (SELECT count() > 1 AND min(since_s) > 300 FROM heard) AS are_all
SELECT
    if(are_all, 'all', h.label) AS exporter,
    min(if(if(are_all, notEmpty(named), has(named, h.label)), 0, h.since_s)) AS silent_s
FROM heard AS h
GROUP BY exporter
ORDER BY exporter

-- Purpose: see how long nothing has come from each exporter; those that fell silent together are one row, as where their collector
--   has stopped. One that was silent for a day is taken for removed.
-- Range: how old what the service noted last may be.
-- Result: exporter String, 'all' where none of several has sent anything; value Float64: since the first of them fell silent,
--   seconds; 0 where an open incident of warning or worse names it, which has an alert of its own; from_ms, to_ms String: as long a
--   time before, and since.
WITH
    (
        SELECT groupUniqArrayArray(arrayPushBack(may_also_be, subject))
        FROM incidents
        WHERE kind = 'telemetry' AND status = 'open' AND severity != 'info'
    ) AS named,
    -- Exporters behind one collector are heard last within this time: twice the usual active timeout of 60 s. So when the first of
    -- them has been silent for 300 s, all have been for 180 s.
    120 AS spread_s,
    heard AS
    (
        SELECT label, argMax(value, checked_at) AS since_s
        FROM measures_log
        WHERE measure = 'exporter_silent_seconds' AND $__timeFilter(checked_at)
        GROUP BY label
        HAVING since_s < 86400
    ),
    (SELECT count() > 1 AND min(since_s) > 300 - spread_s FROM heard) AS are_all,
    judged AS
    (
        SELECT
            label,
            since_s,
            if(are_all, notEmpty(named), has(named, label)) AS is_named,
            NOT is_named AND since_s > 300 - spread_s AS is_silent,
            -- Counts the gaps between those that fell silent apart.
            sum(since_s - previous_s > spread_s) OVER (PARTITION BY is_silent ORDER BY since_s, label) AS spell
        FROM
        (
            SELECT label, since_s, lagInFrame(since_s, 1, since_s) OVER (ORDER BY since_s, label) AS previous_s
            FROM heard
        )
    )
SELECT
    multiIf(are_all, 'all', count() = 1, any(label), concat(min(label), ' and ', toString(count() - 1), ' more')) AS exporter,
    max(if(is_named, 0, since_s)) AS value,
    toString(toInt64(toUnixTimestamp($__toTime)) * 1000 - toInt64(2000 * max(since_s))) AS from_ms,
    toString(toUnixTimestamp($__toTime)) || '000' AS to_ms
FROM judged
GROUP BY multiIf(are_all, '', is_silent, toString(spell), concat('of ', label))
ORDER BY exporter

-- Incidents of warning or above in the span, restarts aside.
SELECT
    start_time AS time,
    end_time AS timeEnd,
    concat($__kind_text(kind), ' of ', subject) AS title,
    summary AS text,
    concat(severity::String, ',', status::String) AS tags
FROM incidents
WHERE end_time >= $__fromTime AND start_time <= $__toTime AND $__whose_incidents AND severity != 'info' AND kind != 'restart'
ORDER BY time, title, text
LIMIT 200

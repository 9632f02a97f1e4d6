-- Incidents of the network in the span.
SELECT
    start_time AS time,
    end_time AS timeEnd,
    concat($__kind_text(kind), ' of ', subject) AS title,
    summary AS text,
    concat(severity::String, ',', status::String) AS tags
FROM incidents
WHERE end_time >= $__fromTime AND start_time <= $__toTime AND kind IN ('slow_switch', 'slow_nic', 'slow_link', 'congestion')
ORDER BY time, title, text
LIMIT 200

-- The incident itself, as a span of time.
SELECT start_time AS time, end_time AS timeEnd, concat($__kind_text(kind), ' of ', subject) AS title, summary AS text, severity::String AS tags
FROM incidents
WHERE incident_id IN (${incident:sqlstring})

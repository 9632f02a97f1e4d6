-- The finding itself, as a span of time.
SELECT start_time AS time, end_time AS timeEnd, concat(kind::String, ' of ', subject) AS title, summary AS text, severity::String AS tags
FROM diagnoses
WHERE diagnosis_id = ${finding:sqlstring}

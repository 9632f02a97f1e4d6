-- Restarts in the span.
SELECT start_time AS time, end_time AS timeEnd, concat('restart of ', job_id) AS title, summary AS text, 'restart' AS tags
FROM diagnoses
WHERE end_time >= $__fromTime AND start_time <= $__toTime AND $__whose_or_nobodys AND kind = 'restart'
ORDER BY time, title, text
LIMIT 200

-- The incidents in the span and the chosen one, open ones first, then the worst.
SELECT incident_id, concat(severity::String, ': ', $__kind_text(kind), ' of ', subject) AS text
FROM incidents
WHERE incident_id IN (${incident:sqlstring}) OR (end_time >= $__fromTime AND start_time <= $__toTime)
ORDER BY incident_id IN (${incident:sqlstring}) DESC, status, severity DESC, lost_gpu_h DESC, start_time DESC, incident_id
LIMIT 500

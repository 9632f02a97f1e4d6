-- The findings in the span, the worst first.
SELECT diagnosis_id, concat(severity::String, ' ', kind::String, ' of ', subject, if(job_id IN ('', subject), '', concat(' in ', job_id))) AS text
FROM diagnoses
WHERE end_time >= $__fromTime AND start_time <= $__toTime
ORDER BY severity DESC, status, start_time DESC, diagnosis_id
LIMIT 500

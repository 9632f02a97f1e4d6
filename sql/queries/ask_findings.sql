-- Purpose: findings that lasted into a span of time.
-- Parameters: job_id, empty for all, also those about no job; from_time, to_time: the span [from, to), UTC; severity, the least.
-- Result: the columns of diagnoses; the worst first.
SELECT *
FROM diagnoses
WHERE ({job_id:String} = '' OR job_id = {job_id:String})
    AND end_time >= {from_time:DateTime64(9)} AND start_time < {to_time:DateTime64(9)}
    AND severity >= {severity:String}
ORDER BY severity DESC, slowdown DESC, start_time, diagnosis_id;

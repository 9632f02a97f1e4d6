-- Purpose: find the steps of a job on which incidents lie, to mark them in drawings.
-- Parameters: job_id.
-- Result: incident_id; first_step, last_step UInt64.
SELECT d.incident_id AS incident_id, min(first_step) AS first_step, max(last_step) AS last_step
FROM diagnoses AS d
WHERE d.job_id = {job_id:String} AND d.incident_id != ''
GROUP BY d.incident_id
ORDER BY first_step, incident_id;

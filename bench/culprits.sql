-- Purpose: name the job that a fault harmed, by the endpoints that it is seen at.
-- Parameters: endpoints Array(String).
-- Result: job_id String, one row, none where there is no job.
SELECT job_id
FROM job_members
GROUP BY job_id
ORDER BY countIf(has({endpoints:Array(String)}, endpoint)) DESC, job_id
LIMIT 1;

-- Purpose: name the incident that cost most.
-- Parameters: none.
-- Result: incident_id String, summary String, one row, none where there is no incident of warning or above.
SELECT
    incident_id,
    summary
FROM incidents
WHERE severity != 'info'
ORDER BY lost_gpu_h DESC, incident_id
LIMIT 1;

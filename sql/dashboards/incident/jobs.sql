-- The jobs that the incident slows or stops, those with most GPUs first.
SELECT j.job_id AS "Job", j.tenant AS "Tenant", j.status::String AS "Status", j.endpoints AS "GPUs"
FROM jobs AS j
INNER JOIN (SELECT arrayJoin(jobs) AS job_id FROM incidents WHERE incident_id IN (${incident:sqlstring})) AS i ON j.job_id = i.job_id
ORDER BY j.endpoints DESC, j.job_id
LIMIT 100

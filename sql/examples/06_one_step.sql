-- What did the GPUs of one server do in one step?
SELECT endpoint, phase, start_time, end_time
FROM timeline
WHERE job_id = 'job-one' AND step = 190
    AND endpoint IN (SELECT endpoint FROM job_members WHERE job_id = 'job-one' AND server = 'host-1-0' AND gpu IN (1, 2))
ORDER BY endpoint, start_time

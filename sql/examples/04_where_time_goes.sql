-- What did the time of a job go to, hour by hour?
SELECT toStartOfHour(start_time) AS hour, phase, round(sum(phase_s) / 3600, 3) AS hours, round(avg(share), 3) AS share
FROM job_timeline
WHERE job_id = 'job-one' AND phase != 'other'
GROUP BY hour, phase
ORDER BY hour, share DESC
LIMIT 6

-- Purpose: list the jobs for `prism-ch jobs`.
-- Parameters: none.
-- Result: job_id, tenant, status; gpus, servers, dp_size, pp_size, steps; step_s, the median, seconds; open_incidents; worst String,
--   empty where none is open; last_seen, to the second; those that run first, the largest on top.
SELECT
    j.job_id AS job_id,
    j.tenant AS tenant,
    j.status AS status,
    j.endpoints AS gpus,
    j.servers AS servers,
    j.dp_size AS dp_size,
    j.pp_size AS pp_size,
    j.steps AS steps,
    round(j.step_s_median, 3) AS step_s,
    i.open_incidents AS open_incidents,
    i.worst AS worst,
    toDateTime(j.last_seen, 'UTC') AS last_seen
FROM jobs AS j
LEFT JOIN
(
    SELECT arrayJoin(jobs) AS job_id, count() AS open_incidents, max(severity)::String AS worst
    FROM incidents
    WHERE status = 'open'
    GROUP BY job_id
) AS i ON j.job_id = i.job_id
ORDER BY j.status, j.endpoints DESC, j.job_id;

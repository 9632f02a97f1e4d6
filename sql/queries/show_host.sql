-- Purpose: list the jobs that a server was in, for its page.
-- Parameters: server.
-- Result: job_id, tenant, status String; gpus, how many of the server; endpoints Array(String) of them; steps; first_ns, last_ns Int64, when
--   the server was in the job; the latest first.
SELECT
    m.job_id AS job_id,
    j.tenant AS tenant,
    j.status::String AS status,
    m.gpus AS gpus,
    m.endpoints AS endpoints,
    j.steps AS steps,
    toUnixTimestamp64Nano(m.first_time) AS first_ns,
    toUnixTimestamp64Nano(m.last_time) AS last_ns
FROM
(
    SELECT job_id, count() AS gpus, arraySort(groupArray(endpoint)) AS endpoints, min(first_seen) AS first_time, max(last_seen) AS last_time
    FROM job_members
    WHERE server = {server:String}
    GROUP BY job_id
) AS m
INNER JOIN jobs AS j ON m.job_id = j.job_id
ORDER BY last_ns DESC, job_id
LIMIT 100;

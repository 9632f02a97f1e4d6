-- Purpose: list jobs for the report and the page at /.
-- Parameters: job_id, empty for all; named, a part of the name of the job or tenant, empty for all; only_open, 1 for jobs with open
--   incidents only; from_time, to_time: the span [from, to) in which they were seen, UTC; rows, first_row: a page of them.
-- Result: job_id, tenant, status String; gpus, servers, dp_size, pp_size, steps; step_s, the median, seconds; first_ns, last_ns Int64;
--   open_incidents; worst String, empty where none is open; jobs, count of all pages; running, stalled, gpus_in_jobs, counts of all jobs,
--   chosen or not; those that run first, of these the largest.
SELECT
    j.job_id AS job_id,
    j.tenant AS tenant,
    j.status::String AS status,
    j.endpoints AS gpus,
    j.servers AS servers,
    j.dp_size AS dp_size,
    j.pp_size AS pp_size,
    j.steps AS steps,
    j.step_s_median AS step_s,
    toUnixTimestamp64Nano(j.first_seen) AS first_ns,
    toUnixTimestamp64Nano(j.last_seen) AS last_ns,
    i.open_incidents AS open_incidents,
    i.worst AS worst,
    count() OVER () AS jobs,
    j.running AS running,
    j.stalled AS stalled,
    j.gpus_in_jobs AS gpus_in_jobs
FROM
(
    SELECT
        *,
        countIf(status = 'running') OVER () AS running,
        countIf(status = 'stalled') OVER () AS stalled,
        sumIf(endpoints, status != 'ended') OVER () AS gpus_in_jobs
    FROM jobs
) AS j
LEFT JOIN
(
    SELECT arrayJoin(jobs) AS job_id, count() AS open_incidents, max(severity)::String AS worst
    FROM incidents
    WHERE status = 'open'
    GROUP BY job_id
) AS i ON j.job_id = i.job_id
WHERE ({job_id:String} = '' OR j.job_id = {job_id:String})
    AND ({named:String} = '' OR positionCaseInsensitiveUTF8(concat(j.job_id, '\n', j.tenant), {named:String}) > 0)
    AND ({only_open:UInt8} = 0 OR i.open_incidents > 0)
    AND j.last_seen >= {from_time:DateTime64(9)} AND j.first_seen < {to_time:DateTime64(9)}
ORDER BY j.status, j.endpoints DESC, j.job_id
LIMIT {first_row:UInt64}, {rows:UInt64};

-- What the server does: its GPUs that are in jobs that have not ended, and the open incidents that name it.
SELECT
    (
        SELECT uniqExact(m.endpoint)
        FROM job_members AS m
        INNER JOIN jobs AS j ON m.job_id = j.job_id
        WHERE m.server IN (${host:sqlstring}) AND j.status != 'ended'
    ) AS "GPUs in jobs",
    count() AS "Incidents",
    countIf(i.status = 'open') AS "Open",
    sum(i.lost_gpu_h) AS "GPU-hours lost"
FROM incidents AS i
WHERE i.end_time >= $__fromTime AND i.start_time <= $__toTime AND $__whose_incidents

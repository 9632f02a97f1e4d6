-- How much longer steps took than what is usual for their job, over time; of the 40 jobs that were slowest. A step counts
-- for all of its time.
WITH
    toUnixTimestamp($__fromTime) AS since,
    toUnixTimestamp($__toTime) AS until,
    greatest($__interval_s, intDiv(until - since, 120), 1) AS cell_s,
    range(intDiv(since, cell_s)::UInt32, intDiv(until, cell_s)::UInt32 + 1) AS cells
SELECT toDateTime(cell * cell_s) AS time, job_id AS job, if(mapContains(found, cell), found[cell], NULL) AS slower
FROM
(
    SELECT job_id, mapFromArrays(groupArray(at), groupArray(slower)) AS found
    FROM
    (
        SELECT s.job_id AS job_id, at, quantileExact(0.5)(s.duration_s) / any(j.step_s_median) - 1 AS slower
        FROM steps AS s
        INNER JOIN (SELECT job_id, step_s_median FROM jobs WHERE step_s_median > 0) AS j ON s.job_id = j.job_id
        ARRAY JOIN range(intDiv(greatest(toUnixTimestamp(s.start_time), since), cell_s)::UInt32, intDiv(toUnixTimestamp(s.end_time), cell_s)::UInt32 + 1) AS at
        WHERE $__timeFilter(s.end_time) AND $__whose
        GROUP BY at, job_id
    )
    GROUP BY job_id
    ORDER BY max(slower) DESC, job_id
    LIMIT 40
)
ARRAY JOIN cells AS cell
ORDER BY time, job

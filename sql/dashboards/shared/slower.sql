-- How much longer steps took than what is usual for their job, over time; of the 40 jobs that were slowest. A step counts
-- for all of its time. Blocks of steps that take less than a 20th of a cell count whole, the steps of the others one by one.
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
        SELECT s.job_id AS job_id, at, s.took_s / j.step_s_median - 1 AS slower
        FROM
        (
            SELECT job_id, at, quantileExactArray(0.5)(durations_s) AS took_s
            FROM
            (
                SELECT
                    job_id, tenant,
                    arrayJoin(range(intDiv(toUnixTimestamp(start_time), cell_s)::UInt32, intDiv(toUnixTimestamp(end_time), cell_s)::UInt32 + 1)) AS at,
                    durations_s
                FROM step_blocks
                WHERE start_time >= $__fromTime AND end_time <= $__toTime AND last_step < until_step
                    AND 20 * (toUnixTimestamp(end_time) - toUnixTimestamp(start_time)) < cell_s
                UNION ALL
                SELECT
                    b.job_id, b.tenant,
                    arrayJoin(range(intDiv(greatest(toUnixTimestamp(start_at), since), cell_s)::UInt32, intDiv(toUnixTimestamp(end_at), cell_s)::UInt32 + 1)),
                    [took_s]
                FROM
                (
                    SELECT job_id, tenant, until_step, steps, start_times, end_times, durations_s
                    FROM step_blocks
                    WHERE start_time >= toStartOfDay($__fromTime - INTERVAL 1 DAY, 'UTC') AND start_time <= $__toTime AND end_time >= $__fromTime
                        AND (
                            start_time < $__fromTime OR end_time > $__toTime
                            OR 20 * (toUnixTimestamp(end_time) - toUnixTimestamp(start_time)) >= cell_s
                            OR (job_id, first_step, revision) IN (SELECT job_id, first_step, revision FROM step_blocks WHERE last_step >= until_step)
                        )
                ) AS b
                ARRAY JOIN b.steps AS step, b.start_times AS start_at, b.end_times AS end_at, b.durations_s AS took_s
                WHERE step < until_step AND $__timeFilter(end_at)
            )
            WHERE $__whose
            GROUP BY job_id, at
        ) AS s
        INNER JOIN (SELECT job_id, step_s_median FROM jobs WHERE step_s_median > 0) AS j ON s.job_id = j.job_id
    )
    GROUP BY job_id
    ORDER BY max(slower) DESC, job_id
    LIMIT 40
)
ARRAY JOIN cells AS cell
ORDER BY time, job

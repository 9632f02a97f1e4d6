-- The chosen incident: the job that it slows most, and its steps there; the endpoints or servers that it names, the likeliest
-- first; start and end; and the steps from as many before it as it lasted until as many after it, at least 20. Where its findings
-- name no job, as those of switches, it is the first job that it slows, and the steps that end while it lasts.
(
    SELECT
        (
            any(w.job_id), any(w.first_step), any(w.last_step), any(i.named), any(i.start_time), any(i.end_time),
            any(w.first_step - least(w.first_step, greatest(w.last_step - w.first_step + 1, 20))),
            any(w.last_step + greatest(w.last_step - w.first_step + 1, 20))
        )
    FROM
    (
        SELECT arrayDistinct(arrayConcat(splitByString('->', subject), may_also_be)) AS named, start_time, end_time
        FROM incidents
        WHERE incident_id IN (${incident:sqlstring})
    ) AS i
    LEFT JOIN
    (
        SELECT job_id, first_step, last_step
        FROM
        (
            SELECT job_id, min(first_step) AS first_step, max(last_step) AS last_step, max(slowdown) AS slower
            FROM diagnoses
            WHERE incident_id IN (${incident:sqlstring}) AND incident_id != '' AND job_id != ''
            GROUP BY job_id
            UNION ALL
            SELECT job_id, min(step) AS first_step, max(step) AS last_step, -1 AS slower
            FROM steps
            WHERE job_id IN (SELECT jobs[1] FROM incidents WHERE incident_id IN (${incident:sqlstring}))
                AND end_time >= (SELECT min(start_time) FROM incidents WHERE incident_id IN (${incident:sqlstring}))
                AND end_time <= (SELECT max(end_time) FROM incidents WHERE incident_id IN (${incident:sqlstring}))
            GROUP BY job_id
        )
        ORDER BY slower DESC, job_id
        LIMIT 1
    ) AS w ON 1
)

-- The chosen incident: the job that it slows most, and its steps there; the endpoints, servers, 'group N' or 'JOB/stage/N' that it
-- names, the likeliest first; start and end; and the steps from as many before it as it lasted until as many after it, at least 20. Where its findings
-- name no job, as those of switches, it is the first job that it slows, and the steps that end while it lasts.
(
    WITH
        (
            SELECT
                (
                    any(arrayDistinct(arrayConcat(if(subject_type = 'group', [concat('group ', subject)], splitByString('->', subject)), may_also_be))),
                    any(start_time), any(end_time), any(jobs[1])
                )
            FROM incidents
            WHERE incident_id IN (${incident:sqlstring})
        ) AS i,
        any(w.job_id) != '' AS is_found,
        if(is_found, any(w.first_step), any(s.first_step)) AS first_step,
        if(is_found, any(w.last_step), any(s.last_step)) AS last_step,
        greatest(last_step - first_step + 1, 20) AS around
    SELECT
        (
            if(is_found, any(w.job_id), i.4), first_step, last_step, i.1, i.2, i.3,
            first_step - least(first_step, around), last_step + around
        )
    FROM
    (
        SELECT min(step) AS first_step, max(step) AS last_step
        FROM steps
        WHERE job_id = i.4 AND end_time >= i.2 AND end_time <= i.3
    ) AS s
    LEFT JOIN
    (
        SELECT job_id, min(first_step) AS first_step, max(last_step) AS last_step
        FROM diagnoses
        WHERE incident_id IN (${incident:sqlstring}) AND incident_id != '' AND job_id != ''
        GROUP BY job_id
        ORDER BY max(slowdown) DESC, job_id
        LIMIT 1
    ) AS w ON 1
)

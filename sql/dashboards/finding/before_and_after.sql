-- The job's steps before, during and after the finding, as many as it lasted.
WITH
    (
        SELECT (any(job_id), any(first_step), any(last_step), any(subject), any(JSONExtractString(evidence, 'last_ready')), any(start_time), any(end_time))
        FROM diagnoses
        WHERE diagnosis_id = ${finding:sqlstring}
    ) AS f,
    greatest(f.3 - f.2 + 1, 20)::Int64 AS width,
    (step >= f.2) + (step > f.3) AS part
SELECT
    ['before', 'during', 'after'][part + 1] AS "Part",
    count() AS "Steps",
    quantileExact(0.5)(duration_s) AS "Step time",
    quantileExact(0.95)(duration_s) AS "95th percentile",
    avg(compute_s) AS "Compute",
    avg(pp_s) AS "Pipeline",
    avg(dp_s) AS "Data parallel"
FROM steps
WHERE job_id = f.1 AND step >= greatest(f.2::Int64 - width, 0) AND step <= f.3 + width
GROUP BY part
ORDER BY part

-- Steps of the job that the incident slows most, before, during and after it, as many as it lasted.
WITH
    $__of_incident AS f,
    (step >= f.2) + (step > f.3) AS part
SELECT
    ['before', 'during', 'after'][part + 1] AS "Part",
    count() AS "Steps",
    quantileExact(0.5)(duration_s) AS "Step time",
    avg(compute_s) AS "Compute",
    avg(pp_s) AS "Pipeline",
    avg(dp_s) AS "Data parallel"
FROM steps
WHERE job_id = f.1 AND step >= f.7 AND step <= f.8
GROUP BY part
ORDER BY part

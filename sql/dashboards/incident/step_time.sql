-- Step times of the job that the incident slows most, from before it until after it.
WITH
    $__of_incident AS f,
    greatest(f.3 - f.2 + 1, 20)::Int64 AS width,
    greatest(intDiv(3 * width, 1000), 1) AS together
SELECT
    max(end_time) AS time,
    nullIf(maxIf(duration_s, step < f.2 OR step > f.3), 0) AS "Before and after",
    nullIf(maxIf(duration_s, step BETWEEN f.2 AND f.3), 0) AS "During"
FROM steps
WHERE job_id = f.1 AND step >= greatest(f.2::Int64 - width, 0) AND step <= f.3 + width
GROUP BY intDiv(step, together)
ORDER BY time

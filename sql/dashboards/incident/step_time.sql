-- Step times of the job that the incident slows most, from before it until after it.
WITH
    $__of_incident AS f,
    greatest(intDiv(f.8 - f.7 + 1, 1000), 1) AS together
SELECT
    max(end_time) AS time,
    nullIf(maxIf(duration_s, step < f.2 OR step > f.3), 0) AS "Before and after",
    nullIf(maxIf(duration_s, step BETWEEN f.2 AND f.3), 0) AS "During"
FROM steps
WHERE job_id = f.1 AND step >= f.7 AND step <= f.8
GROUP BY intDiv(step, together)
ORDER BY time

-- Step times against what is usual: the middle and 5 to 95 % of the steps in the span on which there is no finding.
WITH
    (
        SELECT groupArray((first_step, last_step))
        FROM diagnoses
        WHERE job_id = ${job:sqlstring} AND kind NOT IN ('telemetry', 'imbalance')
    ) AS found,
    shown AS
    (
        SELECT end_time, duration_s, NOT arrayExists(f -> step BETWEEN f.1 AND f.2, found) AS healthy
        FROM steps
        WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time)
    ),
    (SELECT quantilesExactIf(0.05, 0.5, 0.95)(duration_s, healthy) FROM shown) AS band
SELECT
    $__timeInterval_ms(end_time) AS time,
    max(duration_s) AS "Longest",
    quantileExact(0.5)(duration_s) AS "Step time",
    if(isNaN(band[2]), (SELECT any(step_s_median) FROM jobs WHERE job_id = ${job:sqlstring}), band[2]) AS "Usual",
    band[1] AS "Usual, low",
    band[3] AS "Usual, high"
FROM shown
GROUP BY time
ORDER BY time

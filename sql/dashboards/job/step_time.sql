-- Step times against what is usual: the middle and 5 to 95 % of the steps in the span on which there is no finding.
WITH
    (
        SELECT groupArray((first_step, last_step))
        FROM diagnoses
        WHERE job_id = ${job:sqlstring} AND kind NOT IN ('telemetry', 'imbalance')
    ) AS found,
    (SELECT any(step_s_median) FROM jobs WHERE job_id = ${job:sqlstring}) AS median_s
SELECT
    $__timeInterval_ms(lasted.1) AS time,
    max(lasted.2) AS "Longest",
    quantileExact(0.5)(lasted.2) AS "Step time",
    any(if(isNaN(band[2]), median_s, band[2])) AS "Usual",
    any(band[1]) AS "Usual, low",
    any(band[3]) AS "Usual, high"
FROM
(
    SELECT
        groupArray((end_time, duration_s)) AS steps_of_span,
        quantilesExactIf(0.05, 0.5, 0.95)(duration_s, NOT arrayExists(f -> step BETWEEN f.1 AND f.2, found)) AS band
    FROM steps
    WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time)
)
ARRAY JOIN steps_of_span AS lasted
GROUP BY time
ORDER BY time

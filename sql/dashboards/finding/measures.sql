-- What was measured, what it should have been, and what it cost.
SELECT
    d.slowdown AS "Time lost",
    d.score AS "Robust standard deviations",
    d.observed / nullIf(d.expected, 0) AS "Observed against expected",
    (toUnixTimestamp64Milli(d.end_time) - toUnixTimestamp64Milli(d.start_time)) / 1000 AS "Lasted",
    d.slowdown * "Lasted" * j.endpoints / 3600 AS "GPU-hours lost"
FROM diagnoses AS d
LEFT JOIN (SELECT job_id, endpoints FROM jobs) AS j ON d.job_id = j.job_id
WHERE d.diagnosis_id = ${finding:sqlstring}

-- What the incident has cost so far, over all jobs that it slows or stops. "Slower" is how much longer their steps take; it is
-- not there where they stand still.
SELECT
    lost_gpu_h AS "GPU-hours lost",
    if(slowdown < 1, slowdown / (1 - slowdown), NULL) AS "Slower",
    (toUnixTimestamp64Milli(end_time) - toUnixTimestamp64Milli(start_time)) / 1000 AS "Lasted",
    length(jobs) AS "Jobs",
    gpus AS "GPUs in them"
FROM incidents
WHERE incident_id IN (${incident:sqlstring})

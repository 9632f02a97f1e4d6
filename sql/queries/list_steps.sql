-- Purpose: list a job's steps for `prism-ch steps`.
-- Parameters: job_id.
-- Result: step; start_time, to the millisecond; duration_s, compute_s, pp_s, dp_s; slowest_endpoint; incidents Array(String), the
--   kinds of those that have findings on the step; by step.
WITH
    (
        SELECT groupArray((first_step, last_step, incident_id))
        FROM diagnoses
        WHERE job_id = {job_id:String} AND incident_id != ''
    ) AS found,
    (SELECT mapFromArrays(groupArray(incident_id), groupArray(kind::String)) FROM incidents) AS kinds
SELECT
    s.step AS step,
    toDateTime64(s.start_time, 3, 'UTC') AS start_time,
    round(s.duration_s, 3) AS duration_s,
    round(s.compute_s, 3) AS compute_s,
    round(s.pp_s, 3) AS pp_s,
    round(s.dp_s, 3) AS dp_s,
    s.slowest_endpoint AS slowest_endpoint,
    arrayDistinct(arrayMap(f -> kinds[f.3], arrayFilter(f -> s.step BETWEEN f.1 AND f.2 AND mapContains(kinds, f.3), found))) AS incidents
FROM steps AS s
WHERE s.job_id = {job_id:String}
ORDER BY s.step;

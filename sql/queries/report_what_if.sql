-- Purpose: say what jobs' steps would have taken without what slowed them, over all steps that windows replayed.
-- Parameters: job_id, incident_id, each empty for all.
-- Result: job_id, incident_id, without String; first_step, last_step; actual_s, replayed_s, without_s, seconds; saved_gpu_h, GPU-hours; the
--   most saved first.
SELECT
    w.job_id AS job_id,
    w.incident_id AS incident_id,
    w.`without` AS `without`,
    min(w.first_step) AS first_step,
    max(w.last_step) AS last_step,
    sum(w.actual_s) AS actual_s,
    sum(w.replayed_s) AS replayed_s,
    sum(w.without_s) AS without_s,
    sum(w.saved_gpu_h) AS saved_gpu_h
FROM what_if AS w
WHERE w.incident_id != '' AND ({job_id:String} = '' OR w.job_id = {job_id:String})
    AND ({incident_id:String} = '' OR w.incident_id = {incident_id:String})
GROUP BY w.job_id, w.incident_id, w.`without`
ORDER BY saved_gpu_h DESC, job_id, incident_id, `without`
LIMIT 100;

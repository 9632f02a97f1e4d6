-- Purpose: say what jobs' steps would have taken without what slowed them.
-- Parameters: job_id, incident_id, each empty for all; from_time, to_time are not asked: rows of one incident lie in one span.
-- Result: job_id, incident_id, without String; first_step, last_step; actual_s, replayed_s, without_s, seconds; saved_gpu_h, GPU-hours; the
--   most saved first.
SELECT job_id, incident_id, without, first_step, last_step, actual_s, replayed_s, without_s, saved_gpu_h
FROM what_if
WHERE ({job_id:String} = '' OR job_id = {job_id:String}) AND ({incident_id:String} = '' OR incident_id = {incident_id:String})
ORDER BY saved_gpu_h DESC, job_id, incident_id, without
LIMIT 100;

-- Purpose: list what steps of a job would have taken without what slowed them, for `prism-ch what-if`.
-- Parameters: job_id.
-- Result: without; incident_id; first_step, last_step; actual_s, replayed_s, without_s: seconds over those steps; saved_gpu_h; share, of
--   the replayed time; by what is saved.
SELECT
    w.`without` AS `without`,
    w.incident_id AS incident_id,
    min(w.first_step) AS first_step,
    max(w.last_step) AS last_step,
    round(sum(w.actual_s), 3) AS actual_s,
    round(sum(w.replayed_s), 3) AS replayed_s,
    round(sum(w.without_s), 3) AS without_s,
    round(sum(w.saved_gpu_h), 4) AS saved_gpu_h,
    round(1 - sum(w.without_s) / nullIf(sum(w.replayed_s), 0), 4) AS share
FROM what_if AS w
WHERE w.job_id = {job_id:String}
GROUP BY w.`without`, w.incident_id
ORDER BY saved_gpu_h DESC, `without`;

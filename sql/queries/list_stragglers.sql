-- Purpose: say how much of the GPU time of jobs stragglers cost, over all steps that windows replayed.
-- Parameters: job_id, empty for all.
-- Result: job_id, empty for all jobs together, first; gpu_h, GPU-hours replayed; lost_gpu_h, of them lost to stragglers; share, of gpu_h;
--   worst_1, worst_3, worst_10, shares of lost_gpu_h that the slowest workers explain, NULL where nothing is lost; by what is lost.
-- Method: Source: "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), section 4.
SELECT
    arrayJoin(if({job_id:String} = '', ['', w.job_id], [w.job_id])) AS job_id,
    sumIf(w.replayed_s * j.endpoints, w.`without` = 'stragglers') / 3600 AS gpu_h,
    sumIf(w.saved_gpu_h, w.`without` = 'stragglers') AS lost_gpu_h,
    lost_gpu_h / nullIf(gpu_h, 0) AS share,
    sumIf(w.saved_gpu_h, w.`without` = 'worst 1') / nullIf(lost_gpu_h, 0) AS worst_1,
    sumIf(w.saved_gpu_h, w.`without` = 'worst 3') / nullIf(lost_gpu_h, 0) AS worst_3,
    sumIf(w.saved_gpu_h, w.`without` = 'worst 10') / nullIf(lost_gpu_h, 0) AS worst_10
FROM what_if AS w
INNER JOIN jobs AS j ON w.job_id = j.job_id
WHERE w.incident_id = '' AND ({job_id:String} = '' OR w.job_id = {job_id:String})
GROUP BY job_id
ORDER BY job_id != '', lost_gpu_h DESC, job_id
LIMIT 101;

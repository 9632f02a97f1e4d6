-- Purpose: what each cause cost each job.
-- Parameters: none.
-- Result: the columns of losses; the dearest first.
SELECT *
FROM losses
ORDER BY gpu_hours_lost DESC, job_id, cause;

-- Purpose: what the endpoints of a job did in some of its steps.
-- Parameters: job_id; first_step, last_step, both included.
-- Result: the columns of timeline; by step, endpoint, start_time.
SELECT *
FROM timeline
WHERE job_id = {job_id:String} AND step >= {first_step:UInt64} AND step <= {last_step:UInt64}
ORDER BY step, endpoint, start_time;

-- Purpose: makes one job of its steps.
-- Parameters: job_id, status, endpoints, pp_size; as of job_steps.
INSERT INTO jobs_log
    (job_id, revision, tenant, status, first_seen, last_seen, endpoints, servers, dp_size, pp_size, steps, step_s_median)
SELECT
    {job_id:String}, max(revision), any(tenant), {status:String}, min(start_time), max(end_time), {endpoints:UInt32},
    intDiv({endpoints:UInt32}, 8), intDiv({endpoints:UInt32}, 8 * {pp_size:UInt32}), {pp_size:UInt32}, count(),
    quantileExact(0.5)(duration_s)
FROM steps_log
WHERE job_id = {job_id:String};

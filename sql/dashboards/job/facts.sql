-- What the job is.
SELECT
    tenant AS "Tenant", status::String AS "Status", endpoints AS "GPUs", servers AS "Servers",
    dp_size AS "Data parallel", pp_size AS "Pipeline stages", steps AS "Steps", step_s_median AS "Usual step time"
FROM jobs
WHERE job_id = ${job:sqlstring}

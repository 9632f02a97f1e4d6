-- Which rows of a stored table with `job_id` and `revision`, without tenant, are a tenant's: those written by an analysis that
-- found the job to be its own. A job that changes hands is the new tenant's from then on.
(job_id, revision) IN (SELECT job_id, revision FROM {database:Identifier}.jobs_log WHERE tenant = {tenant:String})

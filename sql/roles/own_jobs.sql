-- Which rows of revisions a tenant needs: those of jobs that are or were its own, and those without a job, which name the
-- published revisions and without which no view has rows. They hold numbers and times of windows only.
job_id = '' OR job_id IN (SELECT job_id FROM {database:Identifier}.jobs_log WHERE tenant = {tenant:String})

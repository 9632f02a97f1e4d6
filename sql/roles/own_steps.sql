-- The same of a table with a row a step: what jobs were like is forgotten sooner than their steps.
(job_id, revision) IN (SELECT job_id, revision FROM {database:Identifier}.steps_log WHERE tenant = {tenant:String})

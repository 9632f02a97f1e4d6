-- Purpose: list for each tenant what would give it away to another.
-- Parameters: none.
-- Result: tenant, nobody for what is of none; its own name and those of its jobs, endpoints, servers and findings, in no order.
SELECT tenant, groupUniqArrayArray(names)
FROM
(
    SELECT tenant, [tenant, job_id] AS names FROM jobs
    UNION ALL
    SELECT j.tenant, [m.endpoint, m.server] FROM job_members AS m INNER JOIN jobs AS j ON m.job_id = j.job_id
    UNION ALL
    SELECT tenant, [diagnosis_id, summary] FROM diagnoses WHERE tenant != ''
    UNION ALL
    SELECT 'nobody', [diagnosis_id, summary] FROM diagnoses WHERE tenant = ''
)
GROUP BY tenant

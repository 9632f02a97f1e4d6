-- Purpose: find where the endpoints of a job sit, and all others of the topology: some may have left the job since.
-- Parameters: job_id.
-- Result: endpoint, server, gpu, pp_stage Int64, -1 where unknown; one row an endpoint, in any order.
SELECT endpoint, server, gpu, toInt64(pp_stage) AS pp_stage
FROM job_members
WHERE job_id = {job_id:String}
UNION ALL
SELECT endpoint, server, gpu, -1 AS pp_stage
FROM
(
    SELECT endpoint, server, gpu
    FROM topology
    WHERE endpoint NOT IN (SELECT endpoint FROM job_members WHERE job_id = {job_id:String})
    ORDER BY endpoint, valid_from DESC NULLS LAST
    LIMIT 1 BY endpoint
);

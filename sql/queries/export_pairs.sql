-- Purpose: list the pairs of a job's endpoints that exchange pipeline messages.
-- Parameters: job_id.
-- Result: src_addr, dst_addr; in their order.
SELECT src_addr, dst_addr
FROM pairs
WHERE job_id = {job_id:String} AND kind = 'PP'
ORDER BY src_addr, dst_addr;

-- Purpose: returns the directed pairs of an endpoint, those on which it sends first.
-- Parameters: job_id, endpoint.
SELECT DISTINCT src_addr, dst_addr
FROM pairs_log
WHERE job_id = {job_id:String} AND {endpoint:String} IN (src_addr, dst_addr)
ORDER BY src_addr = {endpoint:String} DESC, src_addr, dst_addr;

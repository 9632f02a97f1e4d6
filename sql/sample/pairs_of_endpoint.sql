-- Purpose: returns the directed pairs of an endpoint, those on which it sends first.
-- Parameters: job_id, who.
SELECT DISTINCT src_addr, dst_addr
FROM pairs_log
WHERE job_id = {job_id:String} AND {who:String} IN (src_addr, dst_addr)
ORDER BY src_addr = {who:String} DESC, src_addr, dst_addr;

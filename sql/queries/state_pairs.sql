-- Purpose: read the pairs of jobs as of given revisions.
-- Parameters: job_ids and revisions, arrays of equal length.
-- Result: job_id, src_addr, dst_addr String, kind Int8 (the Enum's number), confidence Float64, flows and bytes UInt64,
--   first_seen_ns and last_seen_ns Int64.
SELECT
    job_id,
    src_addr,
    dst_addr,
    toInt8(kind) AS kind,
    confidence,
    flows,
    bytes,
    toUnixTimestamp64Nano(first_seen) AS first_seen_ns,
    toUnixTimestamp64Nano(last_seen) AS last_seen_ns
FROM pairs_log
WHERE (job_id, revision) IN (SELECT arrayJoin(arrayZip({job_ids:Array(String)}, {revisions:Array(UInt64)})));

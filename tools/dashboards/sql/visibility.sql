-- Purpose: makes what is seen of each job in the last hour of windows: all but of one job, whose first server no exporter sees.
-- Parameters: from_ns, windows.
INSERT INTO visibility_log (job_id, window_start, revision, tenant, endpoints, endpoints_seen, share, why)
SELECT
    j.job_id,
    fromUnixTimestamp64Nano({from_ns:Int64} + toInt64({windows:UInt64} - 1 - number) * 60000000000),
    {windows:UInt64} - number,
    j.tenant,
    j.endpoints,
    j.endpoints - if(j.is_half_seen, 8, 0),
    if(j.is_half_seen, 0.75, 1),
    if(j.is_half_seen, 'Nothing begins or ends at 8 of its endpoints', '')
FROM (SELECT *, job_id = (SELECT max(job_id) FROM jobs WHERE status = 'running') AS is_half_seen FROM jobs WHERE status != 'ended') AS j
CROSS JOIN numbers(60) AS n;

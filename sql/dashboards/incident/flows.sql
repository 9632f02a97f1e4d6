-- Flow records behind the incident: those of the endpoints and servers that it names, of its last 10 s for which there are
-- records; the slowest for their bytes first. Open it in Explore to ask for others.
WITH
    $__of_incident AS f,
    (
        SELECT groupUniqArray(endpoint)
        FROM (SELECT endpoint, server FROM topology UNION ALL SELECT endpoint, server FROM job_members WHERE job_id = f.1)
        WHERE has(f.4, endpoint) OR has(f.4, server)
    ) AS concerned,
    toUnixTimestamp64Nano(f.6) AS until_ns
SELECT
    fromUnixTimestamp64Nano(time_flow_start_ns) AS "Start",
    src_addr::String AS "Sender",
    dst_addr::String AS "Receiver",
    bytes AS "Bytes",
    (time_flow_end_ns - time_flow_start_ns) / 1e9 AS "Lasted",
    bytes * 8 / nullIf("Lasted", 0) AS "Speed",
    sampler_address::String AS "Seen by"
FROM flows
WHERE time_flow_end_ns > until_ns - 10000000000 AND time_flow_end_ns <= until_ns
    AND (has(concerned, src_addr::String) OR has(concerned, dst_addr::String))
ORDER BY bytes >= 1048576 DESC, "Speed", "Start", "Sender", "Receiver", "Seen by"
LIMIT 100

-- Links from NIC to NIC: the flows of 1 MiB and more in the last 10 s of the span, as the exporter saw them that saw most,
-- their bus bandwidth, and how much slower it is than the middle of all links, and what was found of the link in the span. Those with findings
-- first, then the slowest, up to 50.
WITH
    toUnixTimestamp64Nano(toDateTime64($__toTime, 9)) AS until_ns,
    seen AS
    (
        SELECT src_addr::String AS src, dst_addr::String AS dst, max(by_exporter.1) AS bytes, max(by_exporter.2) AS pace
        FROM
        (
            SELECT
                src_addr, dst_addr,
                (
                    arraySum(f -> f.3, records),
                    arrayReduce('quantileExact(0.5)', arrayMap(f -> (f.2 - f.1) / f.3, records))
                ) AS by_exporter
            FROM
            (
                -- Leaves exact repeats out, in half the time that it takes to read flows.
                SELECT
                    src_addr, dst_addr,
                    groupUniqArray((time_flow_start_ns, time_flow_end_ns, bytes, src_port)) AS records
                FROM flows_log
                WHERE time_flow_end_ns > until_ns - 10000000000 AND time_flow_end_ns <= until_ns AND bytes >= 1048576
                GROUP BY src_addr, dst_addr, sampler_address
            )
        )
        GROUP BY src, dst
    ),
    found AS
    (
        SELECT
            splitByString('->', subject)[1] AS src, splitByString('->', subject)[2] AS dst, count() AS findings,
            argMax((incident_id, status::String, job_id), (status = 'open', severity, start_time, diagnosis_id)) AS worst
        FROM diagnoses
        WHERE kind = 'slow_link' AND end_time >= $__fromTime AND start_time <= $__toTime
        GROUP BY src, dst
    ),
    place AS (SELECT endpoint, concat(any(server), '/', toString(any(gpu))) AS name, any(leaf) AS leaf FROM topology GROUP BY endpoint),
    member AS (SELECT endpoint, argMax(job_id, last_seen) AS job_id FROM job_members GROUP BY endpoint)
SELECT
    if(s.name = '', l.src, s.name) AS "Sender",
    if(d.name = '', l.dst, d.name) AS "Receiver",
    s.leaf AS "From leaf",
    d.leaf AS "To leaf",
    if(l.worst.3 = '', m.job_id, l.worst.3) AS "Job",
    l.bytes AS "Bytes",
    8e9 / nullIf(l.pace, 0) AS "Bus bandwidth",
    l.slower AS "Slower",
    nullIf(l.findings, 0) AS "Findings",
    l.worst.2 AS "Status",
    l.worst.1 AS "Incident"
FROM
(
    SELECT
        if(e.src = '', f.src, e.src) AS src,
        if(e.dst = '', f.dst, e.dst) AS dst,
        nullIf(e.bytes, 0) AS bytes,
        if(e.bytes = 0, NULL, e.pace) AS pace,
        pace / nullIf(medianIf(e.pace, e.bytes > 0) OVER (), 0) - 1 AS slower,
        f.findings AS findings,
        f.worst AS worst
    FROM seen AS e
    FULL JOIN found AS f ON e.src = f.src AND e.dst = f.dst
    ORDER BY findings DESC, slower DESC NULLS LAST, src, dst
    LIMIT 50
) AS l
LEFT JOIN place AS s ON l.src = s.endpoint
LEFT JOIN place AS d ON l.dst = d.endpoint
LEFT JOIN member AS m ON l.src = m.endpoint
ORDER BY l.findings DESC, "Slower" DESC NULLS LAST, "Sender", "Receiver"

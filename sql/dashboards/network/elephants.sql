-- Receivers on which most large flows (1 MiB and more) came together, as one exporter saw them, in the last 10 s of the
-- span, and when.
WITH
    toUnixTimestamp64Nano(toDateTime64($__toTime, 9)) AS until_ns
SELECT
    f.receiver AS "Receiver",
    t.server AS "Server",
    t.leaf AS "Leaf",
    f.most.1 AS "At once",
    fromUnixTimestamp64Nano(f.most.4) AS "When",
    f.most.3 AS "Senders",
    f.most.2 AS "Bytes"
FROM
(
    SELECT receiver, max(seen) AS most
    FROM
    (
        SELECT
            dst_addr::String AS receiver,
            (
                maxIntersections(time_flow_start_ns, time_flow_end_ns),
                sum(bytes),
                uniqExact(src_addr),
                maxIntersectionsPosition(time_flow_start_ns, time_flow_end_ns)
            ) AS seen
        FROM flows
        WHERE time_flow_end_ns > until_ns - 10000000000 AND time_flow_end_ns <= until_ns AND bytes >= 1048576
        GROUP BY dst_addr, sampler_address
    )
    GROUP BY receiver
    ORDER BY most DESC, receiver
    LIMIT 20
) AS f
LEFT JOIN (SELECT endpoint, any(server) AS server, any(leaf) AS leaf FROM topology GROUP BY endpoint) AS t ON f.receiver = t.endpoint
ORDER BY "At once" DESC, "Bytes" DESC, "Receiver"

-- Receivers on which most large flows (1 MiB and more) came together in the last 10 s of the span, and when.
WITH
    toUnixTimestamp64Nano(toDateTime64($__toTime, 9)) AS until_ns
SELECT
    f.receiver AS "Receiver",
    t.server AS "Server",
    t.leaf AS "Leaf",
    f.at_once AS "At once",
    f.moment AS "When",
    f.senders AS "Senders",
    f.moved AS "Bytes"
FROM
(
    SELECT
        dst_addr::String AS receiver,
        maxIntersections(time_flow_start_ns, time_flow_end_ns) AS at_once,
        fromUnixTimestamp64Nano(maxIntersectionsPosition(time_flow_start_ns, time_flow_end_ns)) AS moment,
        uniqExact(src_addr) AS senders,
        sum(bytes) AS moved
    FROM flows
    WHERE time_flow_end_ns > until_ns - 10000000000 AND time_flow_end_ns <= until_ns AND bytes >= 1048576
    GROUP BY dst_addr
    ORDER BY at_once DESC, moved DESC, receiver
    LIMIT 20
) AS f
LEFT JOIN (SELECT endpoint, any(server) AS server, any(leaf) AS leaf FROM topology GROUP BY endpoint) AS t ON f.receiver = t.endpoint
ORDER BY "At once" DESC, "Bytes" DESC, "Receiver"

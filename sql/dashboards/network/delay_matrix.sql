-- Delay per byte from server to server against the middle of all pairs, from the flows of 1 MiB and more in the last 10 s
-- of the span: a hot row is a sender, a hot column a receiver, a hot cell a link. The 16 servers that stand out most.
WITH
    toUnixTimestamp64Nano(toDateTime64($__toTime, 9)) AS until_ns,
    place AS (SELECT endpoint, any(server) AS server FROM topology GROUP BY endpoint),
    paces AS
    (
        SELECT s.server AS sender, d.server AS receiver, max(f.pace) AS pace
        FROM
        (
            SELECT src_addr, dst_addr, quantileExact(0.5)((time_flow_end_ns - time_flow_start_ns) / bytes) AS pace
            FROM flows
            WHERE time_flow_end_ns > until_ns - 10000000000 AND time_flow_end_ns <= until_ns AND bytes >= 1048576
            GROUP BY src_addr, dst_addr
        ) AS f
        INNER JOIN place AS s ON f.src_addr = s.endpoint
        INNER JOIN place AS d ON f.dst_addr = d.endpoint
        GROUP BY sender, receiver
    ),
    compared AS
    (
        SELECT sender, receiver, pace / nullIf(median(pace) OVER (), 0) - 1 AS slower
        FROM paces
    ),
    standing_out AS
    (
        SELECT server
        FROM (SELECT arrayJoin([sender, receiver]) AS server, slower FROM compared)
        GROUP BY server
        ORDER BY max(slower) DESC, server
        LIMIT 16
    )
SELECT sender AS "Sender", receiver AS "Receiver", slower AS "Slower"
FROM compared
WHERE sender IN (SELECT server FROM standing_out) AND receiver IN (SELECT server FROM standing_out)
ORDER BY sender, receiver

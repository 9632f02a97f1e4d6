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
            SELECT src_addr, dst_addr, arrayReduce('quantileExact(0.5)', arrayMap(r -> (r.2 - r.1) / r.3, records)) AS pace
            FROM
            (
                -- Leaves exact repeats out, in less time than it takes to read flows; that several exporters saw a flow
                -- alike changes no median either.
                SELECT
                    src_addr, dst_addr,
                    groupUniqArray((time_flow_start_ns, time_flow_end_ns, bytes, src_port)) AS records
                FROM flows_log
                WHERE time_flow_end_ns > until_ns - 10000000000 AND time_flow_end_ns <= until_ns AND bytes >= 1048576
                GROUP BY src_addr, dst_addr
            )
        ) AS f
        INNER JOIN place AS s ON f.src_addr = s.endpoint
        INNER JOIN place AS d ON f.dst_addr = d.endpoint
        GROUP BY sender, receiver
    ),
    (
        SELECT groupArray((sender, receiver, slower))
        FROM (SELECT sender, receiver, pace / nullIf(median(pace) OVER (), 0) - 1 AS slower FROM paces)
    ) AS cells,
    (
        SELECT groupArray(server)
        FROM
        (
            SELECT server
            FROM (SELECT arrayJoin(cells) AS cell, arrayJoin([cell.1, cell.2]) AS server)
            GROUP BY server
            ORDER BY max(cell.3) DESC, server
            LIMIT 16
        )
    ) AS standing_out
SELECT cell.1 AS "Sender", cell.2 AS "Receiver", cell.3 AS "Slower"
FROM (SELECT arrayJoin(cells) AS cell)
WHERE has(standing_out, cell.1) AND has(standing_out, cell.2)
ORDER BY "Sender", "Receiver"

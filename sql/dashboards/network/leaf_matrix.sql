-- Traffic from leaf to leaf, by the topology; of the 16 leaves that send most; of at most
-- the last 6 hours of the span.
WITH
    greatest(toDateTime($__fromTime, 'UTC'), toDateTime($__toTime, 'UTC') - INTERVAL 6 HOUR) AS since,
    place AS (SELECT endpoint, any(leaf) AS leaf FROM topology GROUP BY endpoint),
    (
        SELECT groupArray((from_leaf, to_leaf, moved))
        FROM
        (
            SELECT s.leaf AS from_leaf, d.leaf AS to_leaf, sum(p.bytes) AS moved
            FROM
            (
                SELECT src_addr, dst_addr, max(by_exporter) AS bytes
                FROM
                (
                    SELECT src_addr, dst_addr, exporter, sum(bytes) AS by_exporter
                    FROM pair_traffic(from_time = since, to_time = toDateTime($__toTime, 'UTC'), points = 1)
                    GROUP BY src_addr, dst_addr, exporter
                )
                GROUP BY src_addr, dst_addr
            ) AS p
            INNER JOIN place AS s ON p.src_addr = s.endpoint
            INNER JOIN place AS d ON p.dst_addr = d.endpoint
            GROUP BY from_leaf, to_leaf
        )
    ) AS cells,
    (
        SELECT groupArray(leaf)
        FROM
        (
            SELECT cell.1 AS leaf
            FROM (SELECT arrayJoin(cells) AS cell)
            GROUP BY leaf
            ORDER BY sum(cell.3) DESC, leaf
            LIMIT 16
        )
    ) AS busiest
SELECT cell.1 AS "From", cell.2 AS "To", cell.3 * 8 / greatest(toUnixTimestamp($__toTime) - toUnixTimestamp(since), 1) AS "Traffic"
FROM (SELECT arrayJoin(cells) AS cell)
WHERE has(busiest, cell.1) AND has(busiest, cell.2)
ORDER BY "From", "To"

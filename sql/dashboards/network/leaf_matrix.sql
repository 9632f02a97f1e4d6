-- Traffic from leaf to leaf, by the topology; of the 16 leaves that send most; of at most
-- the last 6 hours of the span.
WITH
    greatest(toDateTime($__fromTime, 'UTC'), toDateTime($__toTime, 'UTC') - INTERVAL 6 HOUR) AS since,
    place AS (SELECT endpoint, any(leaf) AS leaf FROM topology GROUP BY endpoint),
    moved AS
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
SELECT from_leaf AS "From", to_leaf AS "To", moved * 8 / greatest(toUnixTimestamp($__toTime) - toUnixTimestamp(since), 1) AS "Traffic"
FROM moved
WHERE from_leaf IN (SELECT from_leaf FROM moved GROUP BY from_leaf ORDER BY sum(moved) DESC, from_leaf LIMIT 16)
    AND to_leaf IN (SELECT from_leaf FROM moved GROUP BY from_leaf ORDER BY sum(moved) DESC, from_leaf LIMIT 16)
ORDER BY from_leaf, to_leaf

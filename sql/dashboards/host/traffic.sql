-- What the server's NICs sent and received, over time, as the exporter saw it that saw most of a pair.
WITH concerned AS (SELECT endpoint FROM topology WHERE server IN (${host:sqlstring}))
SELECT
    toDateTime(intDiv(toUnixTimestamp(bucket), width_s) * width_s) AS time,
    sumIf(moved, is_sent) * 8 / any(width_s) AS "Sent",
    sumIf(moved, NOT is_sent) * 8 / any(width_s) AS "Received"
FROM
(
    SELECT bucket, width_s, src_addr, dst_addr, is_sent, max(seen) AS moved
    FROM
    (
        SELECT time AS bucket, greatest($__interval_s, resolution_s) AS width_s, src_addr, dst_addr, exporter, sum(bytes) AS seen
        FROM pair_traffic(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'), points = 150)
        WHERE src_addr IN concerned OR dst_addr IN concerned
        GROUP BY bucket, width_s, src_addr, dst_addr, exporter
    )
    ARRAY JOIN arrayFilter(one -> if(one, src_addr IN concerned, dst_addr IN concerned), [1, 0]) AS is_sent
    GROUP BY bucket, width_s, src_addr, dst_addr, is_sent
)
GROUP BY time
ORDER BY time

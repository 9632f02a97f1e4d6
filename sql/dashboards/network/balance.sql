-- How evenly traffic spreads over the ways between two leaves, in the last 3 minutes of the span: the busiest way against the
-- mean, 1 is even. Of flows whose records name the switches they crossed; the most uneven first.
WITH
    toStartOfMinute(toDateTime($__toTime, 'UTC')) AS until
SELECT
    way[1] AS "From leaf",
    way[-1] AS "To leaf",
    count() AS "Ways",
    max(moved) / avg(moved) AS "Unevenness",
    argMax(arrayStringConcat(arraySlice(way, 2, greatest(length(way) - 2, 0)), ', '), moved) AS "Busiest by"
FROM
(
    SELECT way, sum(seen) AS moved
    FROM
    (
        SELECT src_addr, dst_addr, way::Array(String) AS way, max(seen) AS seen
        FROM
        (
            SELECT src_addr, dst_addr, way, sampler_address, sum(bytes) AS seen
            FROM flow_way_1m_log
            WHERE minute >= until - INTERVAL 3 MINUTE AND minute < until AND length(way) > 1
            GROUP BY src_addr, dst_addr, way, sampler_address
        )
        GROUP BY src_addr, dst_addr, way
    )
    GROUP BY way
)
GROUP BY "From leaf", "To leaf"
ORDER BY "Unevenness" DESC, "From leaf", "To leaf"
LIMIT 20

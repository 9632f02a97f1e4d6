-- Bus bandwidth, bytes for the time that their flows lasted, in the last 3 minutes of the span, and what was usual in 6 minutes
-- of the two hours before: of data-parallel groups, links from NIC to NIC, leaves and spines; the slowest against their usual
-- first. Of flows whose records name the switches they crossed.
WITH
    toStartOfMinute(toDateTime($__toTime, 'UTC')) AS until,
    member AS (SELECT endpoint, argMax((job_id, dp_group), last_seen) AS at FROM job_members GROUP BY endpoint),
    place AS (SELECT endpoint, concat(any(server), '/', toString(any(gpu))) AS name FROM topology GROUP BY endpoint),
    (SELECT groupUniqArray(leaf) FROM topology) AS leaves
SELECT
    place.1 AS "What",
    place.2 AS "Where",
    place.3 AS "Job",
    sumIf(moved, minute >= until - INTERVAL 3 MINUTE) * 8 / nullIf(sumIf(busy_s, minute >= until - INTERVAL 3 MINUTE), 0) AS "Bus bandwidth",
    quantileExactIfOrNull(0.5)(moved * 8 / busy_s, minute < until - INTERVAL 3 MINUTE) AS "Usual",
    "Usual" / "Bus bandwidth" - 1 AS "Slower"
FROM
(
    SELECT minute, place, sum(bytes) AS moved, sum(busy_ns) / 1e9 AS busy_s
    FROM
    (
        SELECT
            w.minute AS minute, w.bytes AS bytes, w.busy_ns AS busy_ns,
            arrayJoin(arrayConcat(
                [('link', concat(if(a.name = '', w.src, a.name), ' to ', if(b.name = '', w.dst, b.name)), s.at.1)],
                if(s.at.1 != '' AND s.at = d.at, [('group', concat('DP group ', toString(s.at.2)), s.at.1)], []),
                arrayMap(one -> (if(has(leaves, one), 'leaf', 'spine'), one, ''), w.way)
            )) AS place
        FROM
        (
            SELECT minute, src_addr::String AS src, dst_addr::String AS dst, way::Array(String) AS way, sum(bytes) AS bytes, sum(busy_ns) AS busy_ns
            FROM flow_way_1m_log
            WHERE minute IN (SELECT until - toIntervalMinute(if(number < 3, number + 1, (number - 2) * 20)) FROM numbers(9))
            GROUP BY minute, src, dst, way
        ) AS w
        LEFT JOIN member AS s ON w.src = s.endpoint
        LEFT JOIN member AS d ON w.dst = d.endpoint
        LEFT JOIN place AS a ON w.src = a.endpoint
        LEFT JOIN place AS b ON w.dst = b.endpoint
    )
    GROUP BY minute, place
    HAVING busy_s > 0
)
GROUP BY place
HAVING "Bus bandwidth" > 0
ORDER BY "Slower" DESC NULLS LAST, place
LIMIT 5 BY "What"

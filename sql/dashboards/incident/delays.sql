-- How much longer each byte took from sender to receiver while the incident lasted than is usual there, as its findings
-- have it: a hot row is a sender, a hot column a receiver, a hot cell a link; a group is one cell. Of the 16 that stand
-- out most. An incident that rests on no delays has none.
WITH
    place AS (SELECT endpoint, concat(any(server), '/', toString(any(gpu))) AS name FROM topology GROUP BY endpoint),
    (
        SELECT groupArray((w.src, w.dst, if(s.name = '', w.src, s.name), if(d.name = '', w.dst, d.name), w.slower))
        FROM
        (
            SELECT
                splitByString('->', way.1) AS ends,
                ends[1] AS src,
                if(length(ends) = 2, ends[2], 'its members') AS dst,
                way.2 / nullIf(JSONExtractFloat(evidence, 'usual_s_per_byte', way.1), 0) - 1 AS slower
            FROM diagnoses
            ARRAY JOIN JSONExtractKeysAndValues(evidence, 'observed_s_per_byte', 'Float64') AS way
            WHERE incident_id IN (${incident:sqlstring}) AND incident_id != ''
            ORDER BY slower DESC
            LIMIT 1 BY src, dst
        ) AS w
        LEFT JOIN place AS s ON w.src = s.endpoint
        LEFT JOIN place AS d ON w.dst = d.endpoint
    ) AS cells,
    (
        SELECT groupArray(endpoint)
        FROM
        (
            SELECT endpoint
            FROM (SELECT arrayJoin(cells) AS cell, arrayJoin([cell.1, cell.2]) AS endpoint)
            GROUP BY endpoint
            ORDER BY max(cell.5) DESC, endpoint
            LIMIT 16
        )
    ) AS standing_out
SELECT cell.3 AS "Sender", cell.4 AS "Receiver", cell.5 AS "Slower"
FROM (SELECT arrayJoin(cells) AS cell)
WHERE has(standing_out, cell.1) AND has(standing_out, cell.2)
ORDER BY "Sender", "Receiver"

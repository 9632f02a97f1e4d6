-- Purpose: show how much longer each byte took from sender to receiver than is usual there, as the evidence of findings has it: a
--   hot row is a sender, a hot column a receiver, a hot cell a link.
-- Parameters: incident_id; job_id, empty for all; places, at most so many of those that stand out most.
-- Result: sender, receiver String, servers and GPUs where they are known, or the members of a group; slower Float64, 0 is as usual.
WITH
    place AS (SELECT endpoint, concat(any(server), '/', toString(any(gpu))) AS name FROM topology GROUP BY endpoint),
    (
        SELECT groupArray((w.src, w.dst, if(s.name = '', w.src, s.name), if(d.name = '', w.dst, d.name), w.slower))
        FROM
        (
            SELECT ends[1] AS src, if(length(ends) = 2, ends[2], 'its members') AS dst, max(excess) AS slower
            FROM
            (
                SELECT
                    splitByString('->', way.1) AS ends,
                    way.2 / nullIf(JSONExtractFloat(evidence, 'usual_s_per_byte', way.1), 0) - 1 AS excess
                FROM diagnoses AS f
                ARRAY JOIN JSONExtractKeysAndValues(evidence, 'observed_s_per_byte', 'Float64') AS way
                WHERE f.incident_id = {incident_id:String} AND f.incident_id != '' AND ({job_id:String} = '' OR f.job_id = {job_id:String})
            )
            WHERE excess IS NOT NULL
            GROUP BY src, dst
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
            LIMIT {places:UInt64}
        )
    ) AS standing_out
SELECT cell.3 AS sender, cell.4 AS receiver, cell.5 AS slower
FROM (SELECT arrayJoin(cells) AS cell)
WHERE has(standing_out, cell.1) AND has(standing_out, cell.2)
ORDER BY sender, receiver;

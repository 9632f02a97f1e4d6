-- The servers that jobs ran on and the chosen one, those that incidents of the span name first.
WITH
    (
        SELECT groupUniqArrayArray(arrayConcat(splitByString('->', subject), may_also_be))
        FROM incidents
        WHERE subject_type IN ('endpoint', 'server', 'link') AND end_time >= $__fromTime AND start_time <= $__toTime
    ) AS named
SELECT server
FROM job_members
WHERE server != '' AND (server IN (${host:sqlstring}) OR (last_seen >= $__fromTime AND first_seen <= $__toTime))
GROUP BY server
ORDER BY server IN (${host:sqlstring}) DESC, countIf(has(named, server) OR has(named, endpoint)) DESC, server
LIMIT 500

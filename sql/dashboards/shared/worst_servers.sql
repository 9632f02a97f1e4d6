-- Servers that findings name, by the GPU time that the jobs lost to them.
SELECT
    if(t.server = '', d.subject, t.server) AS "Server",
    count() AS "Findings",
    countIf(d.status = 'open') AS "Open",
    arrayStringConcat(arraySort(groupUniqArray(d.kind::String)), ', ') AS "Kinds",
    arrayStringConcat(arraySort(groupUniqArray(d.job_id)), ', ') AS "Jobs",
    sum(
        d.slowdown * j.endpoints / 3600
        * greatest(toUnixTimestamp64Milli(least(d.end_time, $__toTime_ms)) - toUnixTimestamp64Milli(greatest(d.start_time, $__fromTime_ms)), 0) / 1000
    ) AS "GPU-hours lost",
    max(d.end_time) AS "Last"
FROM diagnoses AS d
LEFT JOIN (SELECT endpoint, any(server) AS server FROM topology GROUP BY endpoint) AS t ON d.subject = t.endpoint
LEFT JOIN (SELECT job_id, endpoints FROM jobs) AS j ON d.job_id = j.job_id
WHERE d.subject_type IN ('endpoint', 'server') AND d.severity != 'info'
    AND d.end_time >= $__fromTime AND d.start_time <= $__toTime AND $__whose
GROUP BY "Server"
ORDER BY "GPU-hours lost" DESC, "Server"
LIMIT 20

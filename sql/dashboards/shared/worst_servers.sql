-- Servers that incidents name, by the GPU time that jobs lost to them in the span.
SELECT
    if(t.server = '', i.subject, t.server) AS "Server",
    count() AS "Incidents",
    countIf(i.status = 'open') AS "Open",
    arrayStringConcat(arraySort(groupUniqArray($__kind_text(i.kind))), ', ') AS "Kinds",
    arrayStringConcat(arraySort(groupUniqArrayArray(i.jobs)), ', ') AS "Jobs",
    sum(
        i.lost_gpu_h
        * greatest(toUnixTimestamp64Milli(least(i.end_time, $__toTime_ms)) - toUnixTimestamp64Milli(greatest(i.start_time, $__fromTime_ms)), 0)
        / greatest(toUnixTimestamp64Milli(i.end_time) - toUnixTimestamp64Milli(i.start_time), 1)
    ) AS "GPU-hours lost",
    max(i.end_time) AS "Last"
FROM incidents AS i
LEFT JOIN (SELECT endpoint, any(server) AS server FROM topology GROUP BY endpoint) AS t ON i.subject = t.endpoint
WHERE i.subject_type IN ('endpoint', 'server') AND i.severity != 'info'
    AND i.end_time >= $__fromTime AND i.start_time <= $__toTime AND $__whose_incidents
GROUP BY "Server"
ORDER BY "GPU-hours lost" DESC, "Server"
LIMIT 20

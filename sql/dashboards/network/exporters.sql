-- Every exporter: its traffic against the middle one of its kind (by the name up to the first digit), lag and clock.
WITH
    seen AS
    (
        SELECT exporter, replaceRegexpOne(exporter, '[0-9].*', '') AS kind, sum(bytes) AS moved, sum(flows) AS records
        FROM switch_traffic(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'), points = 150)
        WHERE exporter != ''
        GROUP BY exporter
    ),
    found AS
    (
        SELECT arrayJoin(arrayDistinct(arrayPushBack(may_also_be, subject))) AS subject, count() AS incidents
        FROM incidents
        WHERE status = 'open' AND end_time >= $__fromTime AND start_time <= $__toTime AND subject_type IN ('switch', 'exporter')
        GROUP BY subject
    )
SELECT
    s.exporter AS "Exporter",
    s.moved * 8 / greatest(toUnixTimestamp($__toTime) - toUnixTimestamp($__fromTime), 1) AS "Traffic",
    s.moved / nullIf(median(s.moved) OVER (PARTITION BY s.kind), 0) - 1 AS "Against peers",
    s.records / greatest(toUnixTimestamp($__toTime) - toUnixTimestamp($__fromTime), 1) AS "Records",
    m.last_seen AS "Last flow",
    f.incidents AS "Open incidents"
FROM seen AS s
LEFT JOIN exporter_marks AS m ON s.exporter = m.exporter
LEFT JOIN found AS f ON s.exporter = f.subject
ORDER BY "Open incidents" DESC, abs("Against peers") DESC, "Exporter"
LIMIT 200

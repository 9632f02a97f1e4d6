-- Traffic of the twelve exporters that differ most from the middle one, over time.
SELECT point.1 AS time, exporter, point.2 AS rate
FROM
(
    SELECT exporter, points, abs(total / nullIf(median(total) OVER (), 0) - 1) AS off
    FROM
    (
        SELECT exporter, groupArray((bucket, rate)) AS points, sum(rate) AS total
        FROM
        (
            SELECT
                exporter,
                greatest($__interval_s, resolution_s) AS width_s,
                toDateTime(intDiv(toUnixTimestamp(time), width_s) * width_s) AS bucket,
                sum(bytes) * 8 / width_s AS rate
            FROM switch_traffic(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'), points = 150)
            WHERE exporter != ''
            GROUP BY exporter, width_s, bucket
        )
        GROUP BY exporter
    )
    ORDER BY off DESC, exporter
    LIMIT 12
)
ARRAY JOIN points AS point
ORDER BY time, exporter

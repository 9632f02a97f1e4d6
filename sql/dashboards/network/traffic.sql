-- Traffic of the twelve exporters that differ most from the middle one, over time.
WITH
    rates AS
    (
        SELECT
            exporter,
            greatest($__interval_s, resolution_s) AS width_s,
            toDateTime(intDiv(toUnixTimestamp(time), width_s) * width_s) AS bucket,
            sum(bytes) * 8 / width_s AS rate
        FROM switch_traffic(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'), points = 150)
        WHERE exporter != ''
        GROUP BY exporter, width_s, bucket
    ),
    judged AS
    (
        SELECT exporter, abs(sum(rate) / nullIf(median(sum(rate)) OVER (), 0) - 1) AS off
        FROM rates
        GROUP BY exporter
    )
SELECT bucket AS time, exporter, rate
FROM rates
WHERE exporter IN (SELECT exporter FROM judged ORDER BY off DESC, exporter LIMIT 12)
ORDER BY time, exporter

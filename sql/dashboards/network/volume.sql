-- Exporters that sent records in the span, and what they saw.
SELECT
    uniqExact(exporter) AS "Exporters",
    sum(flows) / greatest(toUnixTimestamp($__toTime) - toUnixTimestamp($__fromTime), 1) AS "Records",
    sum(bytes) * 8 / greatest(toUnixTimestamp($__toTime) - toUnixTimestamp($__fromTime), 1) AS "Traffic"
FROM switch_traffic(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'), points = 150)
WHERE exporter != ''

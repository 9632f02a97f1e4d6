-- How unevenly traffic spreads over exporters of one kind (by the name up to the first digit), over time: the busiest
-- against the mean. 1 is even.
WITH rates AS
(
    SELECT $__timeInterval(time) AS bucket, replaceRegexpOne(exporter, '[0-9].*', '') AS kind, exporter, sum(bytes) AS moved
    FROM switch_traffic(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'), points = 150)
    WHERE exporter != ''
    GROUP BY bucket, kind, exporter
)
SELECT bucket AS time, kind AS exporters, max(moved) / avg(moved) AS imbalance
FROM rates
GROUP BY time, exporters
HAVING count() > 1
ORDER BY time, exporters

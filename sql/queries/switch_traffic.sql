-- Purpose: read the traffic of exporters over a span of time, at the coarsest resolution that gives so many points, as the view switch_traffic does.
-- Parameters: from_time, to_time: the span [from, to), UTC; points: how many there should be at least.
-- Result: the columns of switch_traffic; by time, exporter.
SELECT *
FROM switch_traffic(from_time = {from_time:DateTime('UTC')}, to_time = {to_time:DateTime('UTC')}, points = {points:UInt32})
ORDER BY time, exporter;

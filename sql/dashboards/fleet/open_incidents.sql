-- Incidents in the span that are still open, and what they have cost so far.
SELECT
    countIf(severity = 'critical') AS "Critical",
    countIf(severity = 'warning') AS "Warning",
    countIf(severity = 'info') AS "Info",
    sum(lost_gpu_h) AS "GPU-hours lost"
FROM incidents
WHERE status = 'open' AND end_time >= $__fromTime AND start_time <= $__toTime AND $__whose_incidents

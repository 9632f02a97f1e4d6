-- Incidents of the network in the span that are open.
SELECT
    countIf(subject_type = 'switch') AS "Switches",
    countIf(subject_type = 'link') AS "Links",
    countIf(subject_type = 'endpoint') AS "NICs",
    countIf(kind = 'congestion') AS "Congestion"
FROM incidents
WHERE status = 'open' AND kind IN ('slow_switch', 'slow_nic', 'slow_link', 'congestion')
    AND end_time >= $__fromTime AND start_time <= $__toTime

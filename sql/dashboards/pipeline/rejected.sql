-- Records that could not be used, over time, by reason.
SELECT $__timeInterval(received_at) AS time, reason, count() AS rejected
FROM flows_rejected
WHERE $__timeFilter(received_at)
GROUP BY time, reason
ORDER BY time, reason

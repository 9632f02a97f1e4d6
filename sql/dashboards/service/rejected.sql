-- Records that could not be used, over time.
SELECT $__timeInterval(received_at) AS time, count() AS "Rejected"
FROM flows_rejected
WHERE $__timeFilter(received_at)
GROUP BY time
ORDER BY time

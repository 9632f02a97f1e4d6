-- Windows that were closed and waited to be worked, over time.
SELECT $__timeInterval(checked_at) AS time, max(value) AS "Windows behind"
FROM measures_log
WHERE measure = 'windows_behind' AND $__timeFilter(checked_at)
GROUP BY time
ORDER BY time

-- Windows whose last working failed.
SELECT window_start AS time, window_end AS timeEnd, 'window failed' AS title, error AS text, 'failed' AS tags
FROM windows
WHERE $__timeFilter(window_start) AND status = 'failed'
ORDER BY time, title, text
LIMIT 200

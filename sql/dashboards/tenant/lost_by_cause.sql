-- GPU-hours lost in the span, by cause.
SELECT cause AS "Cause", sum(lost_gpu_s) / 3600 AS "GPU-hours lost"
FROM gpu_time
WHERE tenant = ${tenant:sqlstring} AND $__timeFilter(end_time) AND cause != ''
GROUP BY cause
ORDER BY "GPU-hours lost" DESC

-- GPU-hours lost in the span, by cause.
SELECT $__kind_text(cause) AS "Cause", sum(lost_gpu_s) / 3600 AS "GPU-hours lost"
FROM gpu_time(from_time = toDateTime($__fromTime, 'UTC'), to_time = toDateTime($__toTime, 'UTC'))
WHERE cause != '' AND $__whose
GROUP BY cause
ORDER BY "GPU-hours lost" DESC

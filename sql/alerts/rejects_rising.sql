-- Purpose: see which part of the records of the last quarter of an hour could not be used, where that is more than before.
-- Range: the quarter of an hour and the time it is compared with.
-- Result: reason String; value Float64: share rejected for that reason, of all that came; 0 where it is no more than twice the
--   share before, or less than 100 records; from_ms, to_ms String: the last quarter of an hour with as long a time before it.
WITH
    $__toTime - INTERVAL 15 MINUTE AS edge,
    (
        SELECT countIf(checked_at < edge) > 0
        FROM measures_log
        WHERE measure = 'records_landed_total' AND $__timeFilter(checked_at)
    ) AS noted_before,
    grown AS
    (
        -- The database counts these totals: they only grow, and what shows for the first time has begun at 0.
        SELECT
            measure,
            label,
            if(noted_before, maxIf(value, checked_at < edge), min(value)) AS total_then,
            max(value) - total_then AS lately,
            greatest(total_then - min(value), 0) AS before
        FROM measures_log
        WHERE measure IN ('records_landed_total', 'records_rejected_total') AND $__timeFilter(checked_at)
        GROUP BY measure, label
    ),
    (SELECT sum(lately) FROM grown) AS all_lately,
    (SELECT sum(before) FROM grown) AS all_before
SELECT
    label AS reason,
    if(lately >= 100 AND lately / all_lately > 2 * before / greatest(all_before, 1), lately / all_lately, 0) AS value,
    toString(toUnixTimestamp($__toTime - INTERVAL 30 MINUTE)) || '000' AS from_ms,
    toString(toUnixTimestamp($__toTime)) || '000' AS to_ms
FROM grown
WHERE measure = 'records_rejected_total'
ORDER BY reason

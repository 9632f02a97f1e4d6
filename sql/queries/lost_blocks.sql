-- Purpose: find the days of which blocks of steps have fewer steps than were published. Superseded steps are pruned from blocks later
--   than one by one, so blocks may have more.
-- Parameters: kept_s: only steps written within so many seconds, as older blocks may be gone.
-- Result: day_s Int64, start of the day, Unix seconds; steps UInt64; present UInt64: those of them in blocks; partial Array(UInt64):
--   workings of which some steps are in blocks, and not all; by time.
SELECT
    day_s,
    sum(s.written) AS steps,
    sum(b.packed) AS present,
    groupArrayIf(s.revision, b.packed > 0) AS partial
FROM
(
    SELECT intDiv(toUnixTimestamp(start_time), 86400)::Int64 * 86400 AS day_s, revision, count() AS written
    FROM steps_log
    WHERE written_at > now() - toIntervalSecond({kept_s:UInt64}) AND revision IN (SELECT revision FROM published)
    GROUP BY day_s, revision
) AS s
LEFT JOIN
(
    SELECT intDiv(toUnixTimestamp(start_time), 86400)::Int64 * 86400 AS day_s, revision, sum(length(l.steps)) AS packed
    FROM step_blocks_log AS l
    GROUP BY day_s, revision
) AS b USING (day_s, revision)
WHERE b.packed < s.written
GROUP BY day_s
ORDER BY day_s;

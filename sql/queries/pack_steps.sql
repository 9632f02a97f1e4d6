-- Purpose: pack the published steps of a day that are in no block, as step_blocks_mv does when they are written. Made a second time,
--   blocks are not taken for repeats of what was made before and then lost.
-- Parameters: day_s: start of the day, Unix seconds.
-- Result: none.
INSERT INTO step_blocks_log
    (job_id, revision, tenant, first_step, last_step, start_time, end_time, taken_s, is_whole, steps, start_times, end_times,
     durations_s, complete, written_at)
SETTINGS insert_deduplicate = 0
WITH
    arraySort(groupArray((l.step, l.start_time, l.end_time, l.duration_s, l.complete))) AS packed,
    toDate(fromUnixTimestamp({day_s:Int64}), 'UTC') AS day
SELECT
    l.job_id, l.revision, l.tenant, min(l.step), max(l.step), min(l.start_time), max(l.end_time),
    sum(round(l.duration_s * 1e9)::Int64) / 1e9, min(l.complete),
    packed.1, packed.2, packed.3, packed.4, packed.5, max(l.written_at)
FROM steps_log AS l
WHERE toDate(l.start_time, 'UTC') = day
    AND l.revision IN (SELECT revision FROM published)
    AND (l.job_id, l.revision) NOT IN (SELECT job_id, revision FROM step_blocks_log WHERE toDate(start_time, 'UTC') = day)
GROUP BY l.job_id, l.revision, l.tenant;

-- Purpose: publishes what was made: one working a window, for all jobs in it; each sixth hour one cuts, without loss.
-- Parameters: from_ns.
INSERT INTO revisions (job_id, revision, from_step, from_time, window_start, published_at, cuts, next_step, last_time)
SELECT
    job_id, revision, min(step), min(start_time),
    fromUnixTimestamp64Nano({from_ns:Int64} + toInt64(revision - 1) * 60000000000), max(end_time),
    revision % 360 = 0, max(step) + 1, max(end_time)
FROM steps_log
GROUP BY job_id, revision;

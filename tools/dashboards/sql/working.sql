-- Purpose: publishes the workings of those windows, for findings about no single job and for exporters.
-- Parameters: none.
INSERT INTO revisions (job_id, revision, from_step, from_time, window_start, published_at, cuts, next_step, last_time)
SELECT '', revision, 0, window_start, window_start, worked_at, revision % 360 = 0, 0, window_end
FROM windows_log
WHERE status = 'worked';

-- Purpose: jobs that were seen in a span of time.
-- Parameters: from_time, to_time: the span [from, to), UTC.
-- Result: the columns of jobs; the newest first.
SELECT *
FROM jobs
WHERE last_seen >= {from_time:DateTime64(9)} AND first_seen < {to_time:DateTime64(9)}
ORDER BY first_seen DESC, job_id;

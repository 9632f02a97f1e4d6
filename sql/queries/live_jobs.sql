-- Purpose: list the jobs whose latest published revision is of a window from a given time on, the withdrawn ones left out.
-- Parameters: from_ns: start of the window, nanoseconds since the epoch.
-- Result: job_id String; in order.
SELECT job_id
FROM jobs_log
WHERE (job_id, revision) IN
    (
        SELECT job_id, max(revision)
        FROM revisions
        GROUP BY job_id
        HAVING argMax(window_start, revision) >= fromUnixTimestamp64Nano({from_ns:Int64})
    )
ORDER BY job_id;

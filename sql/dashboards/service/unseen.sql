-- Who is not seen: jobs of which not all was seen in the latest window of the last hour of the span, least seen first.
SELECT
    job_id AS "Job",
    any(tenant) AS "Tenant",
    argMax(endpoints, window_start) AS "GPUs",
    argMax(endpoints_seen, window_start) AS "GPUs seen",
    argMax(share, window_start) AS "Time seen",
    argMax(why, window_start) AS "Why"
FROM visibility
WHERE window_start > $__toTime - INTERVAL 1 HOUR AND window_start <= $__toTime
GROUP BY job_id
HAVING "Time seen" < 1 OR "GPUs seen" < "GPUs"
ORDER BY "Time seen", "Job"
LIMIT 100

-- Purpose: find the windows of which a table of results has fewer rows than their last working wrote. Windows that can't be worked
--   again are left out, as their history is pruned.
-- Parameters: table.
-- Result: one row. windows UInt64; written, present UInt64: rows; start_ns, end_ns Int64: from the first window to the end of the
--   last, nanoseconds since the epoch.
SELECT
    count() AS windows,
    sum(w.written) AS written,
    sum(p.present) AS present,
    min(w.start_ns) AS start_ns,
    max(w.end_ns) AS end_ns
FROM
(
    SELECT
        revision,
        toUnixTimestamp64Nano(window_start) AS start_ns,
        toUnixTimestamp64Nano(window_end) AS end_ns,
        l.written[{table:String}] AS written
    FROM windows_log AS l FINAL
    WHERE status != 'failed' AND window_start > (SELECT final_until FROM raw_horizon)
) AS w
LEFT JOIN
(
    SELECT revision, count() AS present
    FROM {table:Identifier}
    GROUP BY revision
) AS p ON p.revision = w.revision
WHERE p.present < w.written;

-- Purpose: find the number that the next analysis of a window takes, also where the list of those begun has lost rows.
-- Parameters: none.
-- Result: one row, revision UInt64. One thread, as to start more of them takes longer than to read three numbers.
SELECT max(revision) + 1 AS revision
FROM
(
    SELECT max(revision) AS revision FROM revision_claims
    UNION ALL
    SELECT max(revision) FROM revisions
    UNION ALL
    SELECT max(revision) FROM windows_log
)
SETTINGS max_threads = 1;

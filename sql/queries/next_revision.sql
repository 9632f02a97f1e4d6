-- Purpose: find the number that the next analysis of a window takes, also where the list of those begun has lost rows.
-- Parameters: none.
-- Result: one row, revision UInt64.
SELECT greatest(
    (SELECT max(revision) FROM revision_claims),
    (SELECT max(revision) FROM revisions),
    (SELECT max(revision) FROM windows_log)
) + 1 AS revision;

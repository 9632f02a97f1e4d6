-- Purpose: find the newest analysis of a window that was begun.
-- Parameters: none.
-- Result: one row, revision UInt64, 0 where there is none.
SELECT max(revision) AS revision
FROM revision_claims;

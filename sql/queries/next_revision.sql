-- Purpose: find the number that the next analysis of a window takes.
-- Parameters: none.
-- Result: one row, revision UInt64.
SELECT max(revision) + 1 AS revision
FROM revision_claims;

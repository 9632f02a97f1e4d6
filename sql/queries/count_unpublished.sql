-- Purpose: count the rows of analyses that were never published.
-- Parameters: table.
-- Result: one row, rows UInt64.
SELECT count() AS rows
FROM {table:Identifier}
WHERE revision IN (SELECT revision FROM unpublished);

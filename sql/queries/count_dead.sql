-- Purpose: count what a view lists as dead.
-- Parameters: view.
-- Result: one row, rows UInt64.
SELECT count() AS rows
FROM {view:Identifier};

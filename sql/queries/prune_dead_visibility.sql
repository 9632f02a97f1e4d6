-- Purpose: delete what was seen of jobs where later analyses have replaced it.
-- Parameters: table.
-- Result: none.
ALTER TABLE {table:Identifier} DELETE
WHERE (window_start, revision) IN (SELECT window_start, revision FROM dead_visibility);

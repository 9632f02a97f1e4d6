-- Purpose: delete the exporters' states that later analyses have replaced.
-- Parameters: table.
-- Result: none.
ALTER TABLE {table:Identifier} DELETE
WHERE (window_start, revision) IN (SELECT window_start, revision FROM dead_exporters);

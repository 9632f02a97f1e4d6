-- Purpose: delete what jobs were like at revisions that nobody will read again.
-- Parameters: table.
-- Result: none.
ALTER TABLE {table:Identifier} DELETE WHERE (job_id, revision) IN (SELECT job_id, revision FROM dead_states);

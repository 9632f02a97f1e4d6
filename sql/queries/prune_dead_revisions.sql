-- Purpose: delete revisions of jobs that nobody will need again.
-- Parameters: table.
-- Result: none.
ALTER TABLE {table:Identifier} DELETE WHERE (job_id, revision) IN (SELECT job_id, revision FROM dead_revisions);

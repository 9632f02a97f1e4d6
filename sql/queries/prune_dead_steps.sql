-- Purpose: delete steps, of jobs or endpoints, as revisions had them that were replaced.
-- Parameters: table.
-- Result: none.
ALTER TABLE {table:Identifier} DELETE WHERE (job_id, step, revision) IN (SELECT job_id, step, revision FROM dead_steps);

-- Purpose: delete blocks of steps of which all were replaced.
-- Parameters: table.
-- Result: none.
ALTER TABLE {table:Identifier} DELETE WHERE (job_id, first_step, revision) IN (SELECT job_id, first_step, revision FROM dead_blocks);

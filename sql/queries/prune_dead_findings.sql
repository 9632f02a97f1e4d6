-- Purpose: delete findings as revisions had them that were replaced.
-- Parameters: table.
-- Result: none.
ALTER TABLE {table:Identifier} DELETE
WHERE (job_id, diagnosis_id, revision) IN (SELECT job_id, diagnosis_id, revision FROM dead_findings);

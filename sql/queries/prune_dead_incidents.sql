-- Purpose: delete incidents as revisions had them that were replaced.
-- Parameters: table.
-- Result: none.
ALTER TABLE {table:Identifier} DELETE
WHERE (incident_id, revision) IN (SELECT incident_id, revision FROM dead_incidents);

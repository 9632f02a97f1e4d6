-- Purpose: delete the rows of analyses that were never published.
-- Parameters: table.
-- Result: none.
ALTER TABLE {table:Identifier} DELETE WHERE revision IN (SELECT revision FROM unpublished);

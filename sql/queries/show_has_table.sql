-- Purpose: find out whether the database has a table or view, as some come with a later version.
-- Parameters: table, its name.
-- Result: one row: found, 0 or 1.
SELECT count() > 0 AS found
FROM system.tables
WHERE database = currentDatabase() AND name = {table:String};

-- Purpose: list the tables and views of the database.
-- Parameters: none.
-- Result: name String.
SELECT name
FROM system.tables
WHERE database = currentDatabase();

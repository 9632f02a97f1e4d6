-- The columns of the views and input tables of the database, for docs/reference/tables.md.
-- Parameters: inputs, the tables that records are inserted into.
-- Result: table, name, type, comment.
SELECT table, name, type, comment
FROM system.columns
WHERE database = currentDatabase()
    AND table IN (
        SELECT name
        FROM system.tables
        WHERE database = currentDatabase() AND (engine = 'View' OR name IN {inputs:Array(String)})
    )
ORDER BY table, position

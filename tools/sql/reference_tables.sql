-- The views and input tables of the database, for docs/reference/tables.md.
-- Parameters: inputs, the tables that records are inserted into.
-- Result: name, comment, create_table_query.
SELECT name, comment, create_table_query
FROM system.tables
WHERE database = currentDatabase() AND (engine = 'View' OR name IN {inputs:Array(String)})
ORDER BY name

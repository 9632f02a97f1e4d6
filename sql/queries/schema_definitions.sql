-- Purpose: list the statements that make the tables and views of a database.
-- Parameters: database.
-- Result: name String, definition String (formatted); by name.
SELECT name, formatQuery(create_table_query) AS definition
FROM system.tables
WHERE database = {database:String}
ORDER BY name;

-- Purpose: read the engines of the tables with all that belongs to them, such as the TTL.
-- Parameters: database.
-- Result: name String, definition String.
SELECT name, engine_full AS definition
FROM system.tables
WHERE database = {database:String} AND engine LIKE '%MergeTree';

-- Purpose: list the tables that store rows on this node.
-- Parameters: none.
-- Result: name String; by name.
SELECT name
FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree'
ORDER BY name;

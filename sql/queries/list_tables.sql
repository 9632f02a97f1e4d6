-- Purpose: list what SQL can ask, for `prism-ch tables`.
-- Parameters: listed, the names of the views that people read.
-- Result: name; about, a line on it; by name.
SELECT name, comment AS about
FROM system.tables
WHERE database = currentDatabase() AND name IN {listed:Array(String)}
ORDER BY name;

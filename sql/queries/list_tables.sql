-- Purpose: list what SQL can ask, for `prism-ch tables`.
-- Parameters: none.
-- Result: name; about, a line on it; by name.
SELECT name, comment AS about
FROM system.tables
WHERE database = currentDatabase() AND engine = 'View'
ORDER BY name;

-- Purpose: read the values that a session has of some settings.
-- Parameters: names: the settings.
-- Result: name String, own Nullable(String): the value; NULL where the session has the default.
SELECT name, changed ? value : NULL AS own
FROM system.settings
WHERE name IN {names:Array(String)}

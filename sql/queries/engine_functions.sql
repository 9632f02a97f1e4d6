-- Purpose: list the functions of the engine.
-- Parameters: none.
-- Result: name String, alias_to String (empty where it is none), categories String.
SELECT name, alias_to, categories
FROM system.functions
WHERE origin = 'System'

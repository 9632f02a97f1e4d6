-- Purpose: counts the merges of parts that are under way.
-- Parameters: database.
SELECT count() FROM system.merges WHERE database = {database:String};

-- Purpose: list the migrations that this database has had.
-- Parameters: none.
-- Result: version UInt32, name String, checksum String, tool_version String; by version.
SELECT version, name, checksum, tool_version
FROM schema_migrations FINAL
ORDER BY version;

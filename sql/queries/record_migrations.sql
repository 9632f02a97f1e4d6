-- Purpose: note that migrations have been applied in full.
-- Parameters: versions; names and checksums (SHA-256, hexadecimal) of each; tool_version.
-- Result: none.
INSERT INTO schema_migrations (version, name, checksum, tool_version)
SELECT version, name, checksum, {tool_version:String}
FROM (SELECT 1)
ARRAY JOIN {versions:Array(UInt32)} AS version, {names:Array(String)} AS name, {checksums:Array(String)} AS checksum;

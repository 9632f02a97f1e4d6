-- Purpose: note that a migration has been applied in full.
-- Parameters: version; name; checksum (SHA-256, hexadecimal); tool_version.
-- Result: none.
INSERT INTO schema_migrations (version, name, checksum, tool_version)
SELECT {version:UInt32}, {name:String}, {checksum:String}, {tool_version:String};

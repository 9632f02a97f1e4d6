-- Purpose: list the settings for a client that sends only those that are not read-only.
-- Parameters: changeable: names of the settings that this user may change.
-- Result: name String, value String (the default), readonly UInt8 (0 where this user may change it).
SELECT name, default AS value, toUInt8(name NOT IN {changeable:Array(String)}) AS readonly
FROM system.settings

-- Purpose: find out which of some contents have landed before or begun to, and under which name.
-- Parameters: landings: their identities.
-- Result: landing String, source String, status String.
SELECT landing, source, status::String AS status
FROM landings
WHERE landing IN {landings:Array(String)};

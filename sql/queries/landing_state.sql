-- Purpose: find out whether a content has landed before, and under which name.
-- Parameters: landing: its identity.
-- Result: none or one row. source String, status String, landed UInt64.
SELECT source, status::String AS status, landed
FROM landings
WHERE landing = {landing:String};

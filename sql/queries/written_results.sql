-- Purpose: list the tables of results whose written rows are noted.
-- Parameters: none.
-- Result: result String; by name.
SELECT DISTINCT arrayJoin(mapKeys(written)) AS result
FROM windows_log
ORDER BY result;

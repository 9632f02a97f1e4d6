-- Purpose: list the tables of results whose written rows are noted.
-- Parameters: none.
-- Result: result String; by name.
SELECT DISTINCT result
FROM written_rows_log
ORDER BY result;

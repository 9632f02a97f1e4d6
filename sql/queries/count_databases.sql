-- Purpose: find out whether a database exists, without the right to make it.
-- Parameters: name: of the database.
-- Result: one row, one column: 1 where it exists, else 0.
SELECT count()
FROM system.databases
WHERE name = {name:String}

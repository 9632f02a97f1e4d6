-- Purpose: recognise the first statement of clickhouse-go, word by word; it is answered without being run.
-- Parameters: none.
-- Result: one row: name, version, protocol revision and time zone of the server.
SELECT displayName(), version(), revision(), timezone()

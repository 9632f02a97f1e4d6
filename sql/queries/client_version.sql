-- Purpose: recognise what clickhouse-connect asks first of all, word by word; everyone is answered.
-- Parameters: none.
-- Result: one row: version and time zone of the server.
SELECT version(), timezone()

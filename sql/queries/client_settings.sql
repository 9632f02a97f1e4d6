-- Purpose: recognise the first statement of clickhouse-connect, word by word; offered_settings.sql is run instead.
-- Parameters: none.
-- Result: name, value and readonly of every setting.
SELECT name, value, readonly FROM system.settings

-- Purpose: describe a landing table to a collector, as DESCRIBE does, without the columns that it can't fill.
-- Parameters: table: its name; own: the columns that it can't fill.
-- Result: the columns of DESCRIBE, one row a column.
SELECT
    name, type, default_kind AS default_type, default_expression, comment, compression_codec AS codec_expression,
    '' AS ttl_expression
FROM system.columns
WHERE database = currentDatabase() AND table = {table:String} AND name NOT IN {own:Array(String)}
ORDER BY position

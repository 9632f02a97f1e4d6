-- Purpose: write a statement as ClickHouse reads it, without comments and in its own way; it is not run.
-- Parameters: sql: the statement.
-- Result: one row, one column.
SELECT formatQuerySingleLine({sql:String})

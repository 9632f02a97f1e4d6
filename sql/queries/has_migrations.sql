-- Purpose: find out whether migrations were ever applied to this database.
-- Parameters: none.
-- Result: one row, one column: 1 or 0.
EXISTS TABLE schema_migrations

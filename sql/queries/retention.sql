-- Purpose: read for how long the rows of each class of tables are kept.
-- Parameters: none.
-- Result: class String, kept_days UInt32, is_default UInt8.
SELECT class, kept_days, is_default
FROM retention;

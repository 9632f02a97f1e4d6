-- Purpose: note for how long the rows of a class of tables are kept from now on.
-- Parameters: class, kept_days, is_default: as in retention_log.
-- Result: none.
INSERT INTO retention_log (class, kept_days, is_default)
SELECT {class:String}, {kept_days:UInt32}, {is_default:UInt8};

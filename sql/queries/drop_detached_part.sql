-- Purpose: remove the files of a part that was set aside.
-- Parameters: table, part.
-- Result: none.
ALTER TABLE {table:Identifier} DROP DETACHED PART {part:String} SETTINGS allow_drop_detached = 1;

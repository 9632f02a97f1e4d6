-- Purpose: take back a part that was set aside.
-- Parameters: table, part.
-- Result: none.
ALTER TABLE {table:Identifier} ATTACH PART {part:String};

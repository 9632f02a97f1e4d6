-- Purpose: set a part of a table aside; its files stay.
-- Parameters: table, part.
-- Result: none.
ALTER TABLE {table:Identifier} DETACH PART {part:String};

-- Purpose: let the engine drop the rows of a table once they are old enough.
-- Parameters: table; age: its column that the age is counted from; days.
-- Result: none.
ALTER TABLE {table:Identifier} MODIFY TTL toDateTime({age:Identifier}) + toIntervalDay({days:UInt32});

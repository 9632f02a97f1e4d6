-- Purpose: let the engine drop the rows of a table once they are old enough, in whole parts, never rewriting one.
-- Parameters: table; age: its column that the age is counted from; days.
-- Result: none, once it has reached all parts, by their times alone: then it can be noted when it begins to hold.
ALTER TABLE {table:Identifier}
    (MODIFY SETTING ttl_only_drop_parts = 1, materialize_ttl_recalculate_only = 1),
    (MODIFY TTL toDateTime({age:Identifier}) + toIntervalDay({days:UInt32}))
SETTINGS materialize_ttl_after_modify = 1, mutations_sync = 2, alter_sync = 2;

-- Purpose: let the TTL of a table drop whole parts, never rewrite one, and a change of it reach old parts by their times alone.
-- Parameters: table.
-- Result: none.
ALTER TABLE {table:Identifier} MODIFY SETTING ttl_only_drop_parts = 1, materialize_ttl_recalculate_only = 1;

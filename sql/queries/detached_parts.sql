-- Purpose: list the parts that are set aside, one by one.
-- Parameters: none.
-- Result: table, name, reason String; reason is empty of a part that somebody detached.
SELECT table, name, reason
FROM system.detached_parts
WHERE database = currentDatabase()
    AND reason NOT IN ('ignored', 'clone', 'attaching', 'deleting', 'covered-by-broken')
ORDER BY table, name;

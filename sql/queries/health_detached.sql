-- Purpose: find the parts of tables that the engine has set aside, most often because they were damaged: their rows are not read.
-- Parameters: none.
-- Result: one row a table. table String; parts UInt64; size_bytes UInt64; reasons Array(String); most first.
SELECT
    table,
    count() AS parts,
    sum(bytes_on_disk) AS size_bytes,
    arraySort(groupUniqArray(if(reason = '', 'detached', reason))) AS reasons
FROM system.detached_parts
WHERE database = currentDatabase()
    AND reason NOT IN ('ignored', 'clone', 'attaching', 'deleting', 'covered-by-broken')
GROUP BY table
ORDER BY parts DESC, table;

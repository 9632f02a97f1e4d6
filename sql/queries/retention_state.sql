-- Purpose: see what the tables hold on this node, and when the first of it expires; without reading a row.
-- Parameters: database; suffix: of the tables that hold a shard's own rows, left off their names.
-- Result: name String; rows UInt64; size_bytes UInt64; expires_at Nullable(DateTime), UTC, when the oldest row does by the TTL;
--   NULL where the table has none.
SELECT
    if(endsWith(table, {suffix:String}), substring(table, 1, length(table) - length({suffix:String})), table) AS name,
    sum(p.rows) AS rows,
    sum(bytes_on_disk) AS size_bytes,
    minOrNullIf(delete_ttl_info_min, delete_ttl_info_min > 0) AS expires_at
FROM system.parts AS p
WHERE active AND database = {database:String} AND p.rows > 0
GROUP BY name;

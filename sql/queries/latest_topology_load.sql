-- Purpose: find the load of the topology that counts, and the highest number taken by any load, finished or not.
-- Parameters: none.
-- Result: one row. load UInt64, digest String, endpoints UInt64 of the latest finished load (0 and empty where there is none);
--   highest UInt64; present UInt64: rows of that load that are there; bounded UInt64: those that do not hold at all times.
WITH
    (SELECT max(load) FROM topology_loads) AS latest,
    (
        SELECT (count(), countIf(valid_from IS NOT NULL OR valid_to IS NOT NULL))
        FROM topology_log
        WHERE load = latest
    ) AS rows
SELECT
    max(l.load) AS load,
    argMax(l.digest, l.load) AS digest,
    argMax(l.endpoints, l.load) AS endpoints,
    greatest(load, (SELECT max(load) FROM topology_log)) AS highest,
    rows.1 AS present,
    rows.2 AS bounded
FROM topology_loads AS l;

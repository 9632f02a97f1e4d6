-- Purpose: find the load of the topology that counts, and the highest number taken by any load, finished or not.
-- Parameters: none.
-- Result: one row. load UInt64, digest String, endpoints UInt64 of the latest finished load (0 and empty where there is none);
--   highest UInt64; present UInt64: rows of that load that are there; bounded UInt64: those that do not hold at all times.
WITH (SELECT (max(load), argMax(digest, load), argMax(endpoints, load)) FROM topology_loads) AS latest
SELECT
    latest.1 AS load,
    latest.2 AS digest,
    latest.3 AS endpoints,
    greatest(latest.1, max(l.load)) AS highest,
    countIf(l.load = latest.1) AS present,
    countIf(l.load = latest.1 AND (valid_from IS NOT NULL OR valid_to IS NOT NULL)) AS bounded
FROM topology_log AS l
WHERE l.load >= latest.1;

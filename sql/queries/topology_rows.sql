-- Purpose: read every row of the loaded topology, whenever it holds.
-- Parameters: none.
-- Result: endpoint String; valid_from_ns, valid_to_ns Nullable(Int64), nanoseconds since the epoch; server String, gpu UInt8,
--   rail, leaf, pod, tenant String; by endpoint and time.
SELECT
    endpoint,
    toUnixTimestamp64Nano(valid_from) AS valid_from_ns,
    toUnixTimestamp64Nano(valid_to) AS valid_to_ns,
    server,
    gpu,
    rail,
    leaf,
    pod,
    tenant
FROM topology
ORDER BY endpoint, valid_from;

-- Purpose: read the topology as it holds at a time.
-- Parameters: at_ns: the time, nanoseconds since the epoch.
-- Result: endpoint, server String, gpu UInt8, rail, leaf, pod, tenant String; by endpoint.
SELECT endpoint, server, gpu, rail, leaf, pod, tenant
FROM topology
WHERE (valid_from IS NULL OR toUnixTimestamp64Nano(valid_from) <= {at_ns:Int64})
    AND (valid_to IS NULL OR toUnixTimestamp64Nano(valid_to) > {at_ns:Int64})
ORDER BY endpoint;

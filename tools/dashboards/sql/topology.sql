-- Purpose: gives the servers of a made-up cluster eight GPUs each, on leaves by pod and rail.
-- Parameters: servers, pod_servers, how many share leaves; tenants, the tenant of each server.
INSERT INTO topology_log (load, endpoint, server, gpu, rail, leaf, pod, tenant)
SELECT
    1,
    concat('10.', toString(100 + g), '.', toString(intDiv(s, 250)), '.', toString(s % 250 + 1)),
    concat('host-', leftPad(toString(s), 3, '0')),
    g,
    concat('rail-', toString(g)),
    concat('leaf-', toString(intDiv(s, {pod_servers:UInt32})), '-', toString(g)),
    concat('pod-', toString(intDiv(s, {pod_servers:UInt32}))),
    {tenants:Array(String)}[s + 1]
FROM (SELECT intDiv(number, 8) AS s, number % 8 AS g FROM numbers({servers:UInt32} * 8));

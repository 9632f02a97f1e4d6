-- Which endpoint sits where, as topology.csv says. Each load is whole; the latest one that was finished counts.

CREATE TABLE IF NOT EXISTS topology_log
(
    load UInt64 COMMENT 'Number of the load that brought the row, larger than any before',
    endpoint String COMMENT 'Address of the NIC, canonical text',
    server String COMMENT 'Server it sits in',
    gpu UInt8 COMMENT 'Index of its GPU in the server, from 0',
    rail String COMMENT 'Rail it is on; empty where unknown',
    leaf String COMMENT 'Its first-hop switch; empty where unknown',
    pod String COMMENT 'Pod of the server; empty where unknown',
    tenant String COMMENT 'Tenant it is given to; empty where to none',
    valid_from Nullable(DateTime64(9, 'UTC')) COMMENT 'From when this holds, UTC; NULL where ever since',
    valid_to Nullable(DateTime64(9, 'UTC')) COMMENT 'Until when this holds, exclusive, UTC; NULL where for good'
)
ENGINE = MergeTree
ORDER BY (load, endpoint)
COMMENT 'Endpoints of every load of a topology; read it as topology';

CREATE TABLE IF NOT EXISTS topology_loads
(
    load UInt64 COMMENT 'Number of the load',
    source String COMMENT 'Name of the file',
    digest String COMMENT 'BLAKE2b digest of its content, hexadecimal',
    endpoints UInt64 COMMENT 'Endpoints in it, count',
    loaded_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When the load was finished, UTC'
)
ENGINE = MergeTree
ORDER BY load
COMMENT 'Finished loads of a topology, written after their rows; the latest one counts';

CREATE VIEW IF NOT EXISTS topology
(
    endpoint String COMMENT 'Address of the NIC, canonical text',
    server String COMMENT 'Server it sits in',
    gpu UInt8 COMMENT 'Index of its GPU in the server, from 0',
    rail String COMMENT 'Rail it is on; empty where unknown',
    leaf String COMMENT 'Its first-hop switch; empty where unknown',
    pod String COMMENT 'Pod of the server; empty where unknown',
    tenant String COMMENT 'Tenant it is given to; empty where to none',
    valid_from Nullable(DateTime64(9, 'UTC')) COMMENT 'From when this holds, UTC; NULL where ever since',
    valid_to Nullable(DateTime64(9, 'UTC')) COMMENT 'Until when this holds, exclusive, UTC; NULL where for good'
)
COMMENT 'Where each endpoint sits; one row each and span of validity'
AS
SELECT endpoint, server, gpu, rail, leaf, pod, tenant, valid_from, valid_to
FROM topology_log
WHERE load = (SELECT max(load) FROM topology_loads);

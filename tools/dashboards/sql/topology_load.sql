-- Purpose: makes the made-up topology count.
-- Parameters: servers.
INSERT INTO topology_loads (load, source, digest, endpoints) SELECT 1, 'sample', 'sample', {servers:UInt32} * 8;

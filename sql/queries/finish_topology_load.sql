-- Purpose: make a load of the topology the one that counts, once all its rows are written.
-- Parameters: load, source, digest, endpoints: as in topology_loads.
-- Result: none.
INSERT INTO topology_loads (load, source, digest, endpoints)
SELECT {load:UInt64}, {source:String}, {digest:String}, {endpoints:UInt64};

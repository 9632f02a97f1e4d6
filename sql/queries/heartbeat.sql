-- Purpose: record a heartbeat for the newest claim of a worker, or that its analysis has ended.
-- Parameters: worker; ended: 1 where it has ended.
-- Result: none.
INSERT INTO claim_beats (revision, worker, ended)
SELECT max(revision), {worker:String}, {ended:UInt8}
FROM revision_claims
WHERE worker = {worker:String}
HAVING count() > 0;

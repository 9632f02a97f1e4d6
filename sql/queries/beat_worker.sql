-- Purpose: give a sign of life for the newest claim of a worker, or note that its working has come to an end.
-- Parameters: worker; ended: 1 where it has come to an end.
-- Result: none.
INSERT INTO claim_beats (revision, worker, ended)
SELECT max(revision), {worker:String}, {ended:UInt8}
FROM revision_claims
WHERE worker = {worker:String}
HAVING count() > 0;

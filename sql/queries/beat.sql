-- Purpose: give a sign of life for a claim, or note that its working has come to an end.
-- Parameters: revision, worker: of the claim; ended: 1 where it has come to an end.
-- Result: none.
INSERT INTO claim_beats (revision, worker, ended)
SELECT {revision:UInt64}, {worker:String}, {ended:UInt8};

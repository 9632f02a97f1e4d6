-- Purpose: note that the analysis of a claimed window has ended without a row of the ledger.
-- Parameters: revision, worker: of the claim.
-- Result: none.
INSERT INTO claim_beats (revision, worker, ended)
SELECT {revision:UInt64}, {worker:String}, 1;

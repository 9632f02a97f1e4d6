-- Purpose: note in the ledger of files how far the landing of a content has come.
-- Parameters: landing, source, size_bytes, status, records, landed, error: as in landings.
-- Result: none.
INSERT INTO landings_log (landing, source, size_bytes, status, records, landed, error)
SELECT
    {landing:String}, {source:String}, {size_bytes:UInt64}, {status:String}, {records:UInt64}, {landed:UInt64}, {error:String};

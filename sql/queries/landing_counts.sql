-- Purpose: count the records of a content that have landed, by what became of them.
-- Parameters: landing: its identity.
-- Result: reason String, empty for records that can be used; records UInt64; most first.
SELECT reason, sum(c.records) AS records
FROM landing_counts_log AS c
WHERE landing = {landing:String}
GROUP BY reason
ORDER BY records DESC, reason;

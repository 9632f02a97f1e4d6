-- Purpose: count the records of some contents that have landed, by what became of them.
-- Parameters: landings: their identities.
-- Result: landing String; reason String, empty for records that can be used; records UInt64; most first.
SELECT landing, reason, sum(c.records) AS records
FROM landing_counts_log AS c
WHERE landing IN {landings:Array(String)}
GROUP BY landing, reason
ORDER BY landing, records DESC, reason;

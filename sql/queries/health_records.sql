-- Purpose: count the records that have landed, by what became of them.
-- Parameters: none.
-- Result: reason String, empty for records that can be used; records UInt64; most first.
SELECT reason, sum(c.records) AS records
FROM landing_counts_log AS c
GROUP BY reason
ORDER BY records DESC, reason;

-- Purpose: name the files that landed in a stretch of time.
-- Parameters: from_s, to_s: Unix seconds, both included.
-- Result: one row. files UInt64; examples Array(String): the first few names.
SELECT uniqExact(source) AS files, arraySlice(arraySort(groupUniqArray(100)(source)), 1, 5) AS examples
FROM landings
WHERE toUnixTimestamp(changed_at) BETWEEN {from_s:Int64} - 2 AND {to_s:Int64} + 2;

-- Purpose: count the records that have arrived of the flows that ended in each of the last seconds.
-- Parameters: since: how far back it is looked, seconds.
-- Result: second_ns Int64; records UInt64, as delivered; written_ns Int64, the second in which the last of them landed; now_ns
--   Int64, the database's present; nanoseconds since the epoch. One row for each second with records, by time.
SELECT
    toInt64(toUnixTimestamp(second)) * 1000000000 AS second_ns,
    sum(records) AS records,
    toInt64(toUnixTimestamp(max(a.written_at))) * 1000000000 AS written_ns,
    toUnixTimestamp64Milli(now64(3)) * 1000000 AS now_ns
FROM arrivals_log AS a
WHERE second >= now('UTC') - toIntervalSecond({since:UInt32})
GROUP BY second
ORDER BY second;

-- Purpose: find the windows that hold flows, and the flows that have arrived of each.
--   Windows that start by {final_until_s} are final: they are left out, or with {final} alone listed.
-- Parameters: window_s, length of a window in seconds; final_until_s, seconds since the epoch; final, 0 or 1.
-- Result: a row a window, in no order: start_ns Int64, nanoseconds since the epoch; fingerprint UInt64 of its records.
SELECT
    intDiv(toUnixTimestamp(second)::Int64, {window_s:Int64}) * {window_s:Int64} * 1000000000 AS start_ns,
    -- Part sums add up as they are, and of the past only what is needed is read.
    sum(a.fingerprint) AS fingerprint
FROM arrivals_log AS a
WHERE if(
    {final:UInt8},
    second < toDateTime({final_until_s:Int64} + {window_s:Int64}, 'UTC'),
    second > toDateTime({final_until_s:Int64}, 'UTC')
)
GROUP BY start_ns
HAVING (start_ns <= {final_until_s:Int64} * 1000000000) = {final:UInt8};

-- Purpose: find the windows that hold flows of a span of time, and the flows that have arrived of each.
-- Parameters: window_s, length of a window in seconds; first_s, last_s: the span, both included, seconds since the epoch.
-- Result: a row a window, in no order: number UInt32, from the epoch in lengths of a window; fingerprint UInt64 of its records
--   within the span.
SELECT
    intDiv(toUnixTimestamp(second), {window_s:UInt32}) AS number,
    -- Part sums add up as they are, and of the past only what is needed is read.
    sum(a.fingerprint) AS fingerprint
FROM arrivals_log AS a
WHERE second >= {first_s:UInt32} AND second <= {last_s:UInt32}
GROUP BY number;

-- Purpose: read what the ledger must remember of a window whose analysis begins: the flows that have arrived until now.
-- Parameters: revision; start_ns and end_ns of the window, nanoseconds since the epoch.
-- Result: one row. claims UInt64: holders of this revision (1, or another process took the same number);
--   attempts UInt64: analyses of the window begun so far; flows UInt64: records arrived; fingerprint UInt64 of these.
WITH
    fromUnixTimestamp64Nano({start_ns:Int64}) AS start,
    fromUnixTimestamp64Nano({end_ns:Int64}) AS end
SELECT claims, attempts, flows, fingerprint
FROM
(
    SELECT
        countIf(revision = {revision:UInt64}) AS claims,
        countIf(window_start = start AND window_end = end) AS attempts
    FROM revision_claims
) AS begun,
(
    SELECT sum(a.records) AS flows, sum(a.fingerprint) AS fingerprint
    FROM arrivals_log AS a
    WHERE second >= start AND second < end
) AS arrived;

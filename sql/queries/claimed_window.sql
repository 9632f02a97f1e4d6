-- Purpose: read what the ledger must remember of a window whose analysis begins: the flows that have arrived until now.
-- Parameters: revision; start_ns and end_ns of the window, nanoseconds since the epoch.
-- Result: one row. claims UInt64: holders of this revision (1, or another process took the same number);
--   attempts UInt64: analyses of the window begun so far; flows UInt64: records arrived; first_flows UInt64: records that
--   had arrived at its first analysis; fingerprint UInt64 of the records arrived.
WITH
    fromUnixTimestamp64Nano({start_ns:Int64}) AS start,
    fromUnixTimestamp64Nano({end_ns:Int64}) AS end,
    (
        SELECT (countIf(revision = {revision:UInt64}), countIf(window_start = start AND window_end = end))
        FROM revision_claims
    ) AS begun
SELECT
    begun.1 AS claims,
    begun.2 AS attempts,
    sum(a.records) AS flows,
    ifNull((SELECT argMaxOrNull(l.first_flows, l.revision) FROM windows_log AS l WHERE window_start = start AND window_end = end), flows) AS first_flows,
    sum(a.fingerprint) AS fingerprint
FROM arrivals_log AS a
WHERE second >= start AND second < end;

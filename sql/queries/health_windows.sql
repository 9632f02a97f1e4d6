-- Purpose: see how the windows stand that were worked.
-- Parameters: none.
-- Result: one row. worked, failed UInt64: windows; flows, late_flows UInt64: records in them, as delivered; failed_start_s
--   Int64: start of the first that failed, Unix seconds; error String: why it did; attempts UInt32: how often it was tried.
SELECT
    countIf(status = 'worked') AS worked,
    countIf(status = 'failed') AS failed,
    sum(w.flows) AS flows,
    sum(w.late_flows) AS late_flows,
    toUnixTimestamp(toDateTime(minIf(window_start, status = 'failed'), 'UTC')) AS failed_start_s,
    argMinIf(error, window_start, status = 'failed') AS first_error,
    argMinIf(w.attempts, window_start, status = 'failed') AS failed_attempts
FROM windows AS w;

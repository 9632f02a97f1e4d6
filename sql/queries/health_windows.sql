-- Purpose: see how the windows stand that were worked.
-- Parameters: none.
-- Result: one row. worked, failed UInt64: windows, worked also those without jobs that failed; flows, late_flows UInt64:
--   records in them, as delivered; failed_start_s Int64: start of the first that failed, Unix seconds; error String: why it
--   did; attempts UInt32: how often it was tried; partial UInt64: windows without jobs that failed; partial_error String: why
--   these did in the newest one.
SELECT
    countIf(status != 'failed') AS worked,
    countIf(status = 'failed') AS failed,
    sum(w.flows) AS flows,
    sum(w.late_flows) AS late_flows,
    toUnixTimestamp(toDateTime(minIf(window_start, status = 'failed'), 'UTC')) AS failed_start_s,
    argMinIf(error, window_start, status = 'failed') AS first_error,
    argMinIf(w.attempts, window_start, status = 'failed') AS failed_attempts,
    countIf(status = 'partial') AS partial,
    argMaxIf(error, window_start, status = 'partial') AS partial_error
FROM windows AS w;

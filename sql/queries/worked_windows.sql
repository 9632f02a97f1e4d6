-- Purpose: list what the ledger has of each window, by its last analysis.
-- Parameters: version: this version of prism-ch, which does not try its own partial windows again.
-- Result: a row a window, in no order: start_ns and length_ns Int64, nanoseconds; revision, fingerprint of the records,
--   inputs UInt64; is_worked UInt8: 1 where it need not be worked again as it failed; is_silent UInt8: 1 without flows.
SELECT
    toUnixTimestamp64Nano(window_start) AS start_ns,
    toUnixTimestamp64Nano(window_end) - toUnixTimestamp64Nano(window_start) AS length_ns,
    revision,
    fingerprint,
    inputs,
    status = 'worked' OR (status = 'partial' AND version = {version:String}) AS is_worked,
    flows = 0 AS is_silent
FROM windows_log FINAL;

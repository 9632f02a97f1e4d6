-- Purpose: list what the ledger has of each window, by its last analysis.
--   Of the windows that start by {final_until_s}, which are final, it is one of each length, of the newest analysis, unless {final}.
-- Parameters: version: this version of prism-ch, which does not try its own partial windows again; final_until_s, seconds since
--   the epoch; final, 0 or 1.
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
FROM windows_log FINAL
ORDER BY revision DESC
LIMIT 1 BY if({final:UInt8} OR start_ns > {final_until_s:Int64} * 1000000000, start_ns, 0), length_ns;

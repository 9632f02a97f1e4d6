-- Purpose: find up to when windows are final, since their raw flows may be gone.
-- Parameters: none.
-- Result: one row, final_until_ns Int64, nanoseconds since the epoch: windows that start by then are final; 0 where none is.
SELECT toUnixTimestamp(final_until)::Int64 * 1000000000 AS final_until_ns
FROM raw_horizon;

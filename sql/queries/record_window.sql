-- Purpose: note in the ledger how the analysis of a window ended.
-- Parameters: those of the window's columns (windows_log), times in nanoseconds since the epoch; stages and seconds:
--   parts of the analysis and how long each took.
-- Result: none.
INSERT INTO windows_log
    (window_start, window_end, revision, flows, first_flows, fingerprint, inputs, attempts, status, error, version, seconds)
SELECT
    fromUnixTimestamp64Nano({start_ns:Int64}),
    fromUnixTimestamp64Nano({end_ns:Int64}),
    {revision:UInt64},
    {flows:UInt64},
    {first_flows:UInt64},
    {fingerprint:UInt64},
    {inputs:UInt64},
    {attempts:UInt32},
    {status:String},
    {error:String},
    {version:String},
    mapFromArrays({stages:Array(String)}, {seconds:Array(Float64)});

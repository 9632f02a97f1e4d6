-- Purpose: note that the analysis of a window begins, under a number of its own.
-- Parameters: revision; start_ns and end_ns of the window, nanoseconds since the epoch; worker: who works it.
-- Result: none.
INSERT INTO revision_claims (revision, window_start, window_end, worker)
SELECT {revision:UInt64}, fromUnixTimestamp64Nano({start_ns:Int64}), fromUnixTimestamp64Nano({end_ns:Int64}), {worker:String};

-- Purpose: add up how long all phases of each kind took, to compare with a trace.
-- Result: phase String, length_ns Int64; in any order.
SELECT toString(phase) AS phase, sum(toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time)) AS length_ns
FROM timeline
GROUP BY phase;

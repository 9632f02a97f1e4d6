-- Purpose: find out since when the whole cluster is silent: no exporter sent anything within the last {silent_after_s} seconds.
--   Records that came long after their flows, as files of the past do, are no sign of the present: then there is no silence.
-- Parameters: silent_after_s; prompt_s: how long after its end the newest flow may have come at most, seconds.
-- Result: one row, last_ns Int64: end of the newest flow, nanoseconds since the epoch; 0 where the cluster is not silent.
SELECT
    if(
        count() > 0
            AND max(last_received_at) < now64(3) - toIntervalSecond({silent_after_s:UInt32})
            AND argMax(last_received_at, last_seen) <= max(last_seen) + toIntervalSecond({prompt_s:UInt32}),
        toUnixTimestamp64Nano(max(last_seen)),
        0
    ) AS last_ns
FROM exporter_marks;

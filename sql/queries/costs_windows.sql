-- Purpose: choose windows whose analysis is measured: of the newest worked ones that hold flows, so many evenly.
-- Parameters: among: how many of the newest are chosen from; count: how many are chosen at the most.
-- Result: start_ns, end_ns Int64, oldest first; flows UInt64: records in it, as delivered; write_s Float64: how long its results took to write, seconds of the clock.
WITH
    newest AS
    (
        SELECT
            toUnixTimestamp64Nano(w.window_start) AS start_ns,
            toUnixTimestamp64Nano(w.window_end) AS end_ns,
            w.flows AS flows,
            s.seconds AS write_s
        FROM windows AS w
        LEFT JOIN (SELECT window_start, seconds FROM stage_seconds WHERE stage = 'write') AS s USING (window_start)
        WHERE w.status != 'failed' AND w.flows > 0
        ORDER BY w.window_start DESC
        LIMIT {among:UInt32}
    ),
    numbered AS (SELECT *, row_number() OVER (ORDER BY start_ns) AS number, count() OVER () AS total FROM newest)
SELECT start_ns, end_ns, flows, write_s
FROM numbered
WHERE intDiv(number * {count:UInt32}, total) != intDiv((number - 1) * {count:UInt32}, total)
ORDER BY start_ns;

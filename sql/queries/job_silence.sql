-- Purpose: find out since when each job that has not ended, and a part of it, sends nothing on the pairs that it trains on, as far
--   as records have arrived by now.
-- Parameters: since: how far back it is looked, seconds.
-- Result: job_id, status String; known_ns Int64, up to when its flows are analysed; last_ns Int64, the end of its newest flow;
--   quiet_ns Int64, that of the pair that has been silent for longest; all nanoseconds since the epoch; step_s Float64, its usual
--   step in seconds. Jobs and pairs without a flow in that time count for nothing.
SELECT
    p.job_id AS job_id,
    any(j.status)::String AS status,
    toUnixTimestamp64Nano(any(j.last_seen)) AS known_ns,
    max(t.last_ns) AS last_ns,
    min(t.last_ns) AS quiet_ns,
    any(j.step_s_median) AS step_s
FROM pairs AS p
INNER JOIN jobs AS j ON p.job_id = j.job_id
INNER JOIN
(
    SELECT src_addr, dst_addr, max(last_end_ns) AS last_ns
    FROM flow_pair_1m_log
    WHERE minute >= now('UTC') - toIntervalSecond({since:UInt32})
    GROUP BY src_addr, dst_addr
) AS t ON p.src_addr = t.src_addr AND p.dst_addr = t.dst_addr
WHERE p.kind != 'other' AND j.status != 'ended'
GROUP BY p.job_id
ORDER BY job_id;

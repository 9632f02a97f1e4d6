-- What the pipeline knows of the exporters that feed it.

CREATE VIEW IF NOT EXISTS exporters
(
    exporter String COMMENT 'Address or name of the exporter (switch), as its records give it',
    first_seen DateTime64(9) COMMENT 'Start of its first flow, UTC',
    last_seen DateTime64(9) COMMENT 'End of its last flow, UTC',
    flows UInt64 COMMENT 'Flow records from it, as delivered, count',
    lag_s Float64 COMMENT 'From the end of its last flow to the arrival of the last record of that minute, seconds; of a file, its age',
    clock_offset_s Nullable(Float64) COMMENT 'How far its clock is ahead of most others, as last found, seconds; NULL where never',
    idle_timeout_s Nullable(Float64) COMMENT 'Silence after which it closes a record, as last inferred, seconds; NULL where never',
    lost UInt64 COMMENT 'Records lost by gaps in its sequence numbers, count; 0 where its records carry none',
    active_timeout_s Nullable(Float64) COMMENT 'Length at which it closes a record, as last inferred, seconds; NULL where never'
)
COMMENT 'Exporters that flow records came from, one row each; records that name none are left out'
AS
SELECT
    sampler_address AS exporter,
    fromUnixTimestamp64Nano(min(first_start_ns)) AS first_seen,
    fromUnixTimestamp64Nano(max(last_end_ns)) AS last_seen,
    sum(s.flows) AS flows,
    (toUnixTimestamp64Milli(argMax(last_received_at, minute)) - intDiv(max(last_end_ns), 1000000)) / 1000 AS lag_s,
    any(k.clock_offset_s) AS clock_offset_s,
    any(k.idle_timeout_s) AS idle_timeout_s,
    0 AS lost,
    any(k.active_timeout_s) AS active_timeout_s
FROM switch_1m AS s
LEFT JOIN
(
    SELECT
        l.exporter AS exporter,
        argMax(l.clock_offset_s, l.window_start) AS clock_offset_s,
        argMax(l.idle_timeout_s, l.window_start) AS idle_timeout_s,
        argMax(l.active_timeout_s, l.window_start) AS active_timeout_s
    FROM (SELECT *, '' AS job_id FROM exporters_log) AS l
    ASOF LEFT JOIN revision_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
    WHERE (c.revision = 0 OR l.window_start < c.until_time)
        AND l.revision IN (SELECT revision FROM published)
    GROUP BY l.exporter
) AS k ON s.sampler_address = k.exporter
WHERE sampler_address != ''
GROUP BY sampler_address;

-- What the pipeline knows of the exporters that feed it.

-- How far each exporter has come: one row each, cheap to ask every second.
CREATE TABLE IF NOT EXISTS exporter_marks_log
(
    sampler_address LowCardinality(String) COMMENT 'Exporter (switch); empty where unknown',
    mark_ns SimpleAggregateFunction(max, Int64) COMMENT 'End of its last flow, or when it arrived where the exporter''s clock is ahead, nanoseconds since the epoch',
    ahead_ns SimpleAggregateFunction(max, Int64) COMMENT 'How far the end of a flow lay after its arrival at most, nanoseconds; negative where none did',
    last_received_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When its last record arrived, UTC'
)
ENGINE = AggregatingMergeTree
ORDER BY sampler_address
COMMENT 'How far each exporter has come, in part maxima; read it as exporter_marks';

-- Of a minute that has records from the future, the arrival counts: a clock that jumps ahead closes no window early.
CREATE MATERIALIZED VIEW IF NOT EXISTS exporter_marks_mv TO exporter_marks_log
AS
SELECT
    sampler_address,
    max(least(last_end_ns, toUnixTimestamp64Milli(s.last_received_at) * 1000000)) AS mark_ns,
    max(last_end_ns - toUnixTimestamp64Milli(s.last_received_at) * 1000000) AS ahead_ns,
    max(s.last_received_at) AS last_received_at
FROM switch_1m_log AS s
GROUP BY sampler_address;

CREATE VIEW IF NOT EXISTS exporter_marks
(
    exporter String COMMENT 'Address or name of the exporter (switch); empty for all records that name none',
    last_seen DateTime64(9, 'UTC') COMMENT 'End of its last flow, or its arrival where the exporter''s clock is ahead, UTC',
    last_received_at DateTime64(3, 'UTC') COMMENT 'When its last record arrived, UTC',
    ahead_s Float64 COMMENT 'How far the end of a flow lay after its arrival at most, seconds; above 0 its clock is ahead'
)
COMMENT 'How far each exporter has come, one row each'
AS
SELECT
    sampler_address AS exporter,
    fromUnixTimestamp64Nano(max(mark_ns), 'UTC') AS last_seen,
    max(m.last_received_at) AS last_received_at,
    max(ahead_ns) / 1e9 AS ahead_s
FROM exporter_marks_log AS m
GROUP BY sampler_address;

-- An analysis of a window replaces what was found in it and in those after it, as it does findings about no single job.
CREATE TABLE IF NOT EXISTS exporters_log
(
    window_start DateTime64(9) COMMENT 'Start of the window, UTC',
    exporter LowCardinality(String) COMMENT 'Address or name of the exporter (switch), as its records give it',
    revision UInt64 COMMENT 'Number of the working that wrote the row',
    idle_timeout_s Nullable(Float64) COMMENT 'Silence after which it closed a record, seconds; NULL where too little shows it',
    active_timeout_s Nullable(Float64) COMMENT 'Length at which it closed a record, seconds; NULL likewise',
    clock_offset_s Nullable(Float64) COMMENT 'How far its clock was ahead of most others, seconds; NULL where too little shows it',
    clock_uncertainty_s Nullable(Float64) COMMENT 'Standard deviation of that, seconds; NULL likewise',
    clock_matches UInt64 COMMENT 'Observations of it matched with those of others, count',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(window_start)
ORDER BY (window_start, exporter, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'What windows found of exporters, one row a working and exporter; read it as exporters';

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
    ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
    WHERE (c.revision = 0 OR l.window_start < c.until_time)
        AND l.revision IN (SELECT revision FROM {published})
    GROUP BY l.exporter
) AS k ON s.sampler_address = k.exporter
WHERE sampler_address != ''
GROUP BY sampler_address;

-- One clock that drifts puts flows of several switches out of order.
CREATE VIEW IF NOT EXISTS exporter_clocks
(
    window_start DateTime64(9) COMMENT 'Start of the window, UTC; a filter on it reads only what it must',
    exporter String COMMENT 'Address or name of the exporter (switch), as its records give it',
    clock_offset_s Nullable(Float64) COMMENT 'How far its clock was ahead of most others, seconds; NULL where too little shows it',
    clock_uncertainty_s Nullable(Float64) COMMENT 'Standard deviation of that, seconds; NULL likewise',
    idle_timeout_s Nullable(Float64) COMMENT 'Silence after which it closed a record, seconds; NULL where too little shows it',
    active_timeout_s Nullable(Float64) COMMENT 'Length at which it closed a record, seconds; NULL likewise'
)
COMMENT 'Clocks and timeouts of exporters as windows found them, one row a window and exporter'
AS
SELECT
    l.window_start, l.exporter, l.clock_offset_s, l.clock_uncertainty_s, l.idle_timeout_s, l.active_timeout_s
FROM (SELECT *, '' AS job_id FROM exporters_log) AS l
ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.window_start < c.until_time) AND l.revision IN (SELECT revision FROM {published});

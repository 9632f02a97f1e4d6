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

-- What came before the view; maxima may be taken twice.
INSERT INTO exporter_marks_log
SELECT
    sampler_address,
    max(least(last_end_ns, toUnixTimestamp64Milli(s.last_received_at) * 1000000)),
    max(last_end_ns - toUnixTimestamp64Milli(s.last_received_at) * 1000000),
    max(s.last_received_at)
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

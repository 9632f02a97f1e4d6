-- What `prism-ch serve` knows of its own health, as /healthz and /metrics report it, recorded every few seconds.

CREATE TABLE IF NOT EXISTS health_log
(
    checked_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When this was found, UTC',
    process LowCardinality(String) COMMENT 'Host and number of the process that serves',
    name LowCardinality(String) COMMENT 'What was looked at',
    state Enum8('ok' = 1, 'warn' = 2, 'bad' = 3) COMMENT 'How it stands',
    what String COMMENT 'What was found, one sentence',
    mend String COMMENT 'How to mend it; empty where all is well'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(checked_at)
ORDER BY (process, checked_at, name)
COMMENT 'Findings about the service''s own health; read the latest as health';

CREATE VIEW IF NOT EXISTS health
(
    name String COMMENT 'What was looked at',
    state Enum8('ok' = 1, 'warn' = 2, 'bad' = 3) COMMENT 'How it stands',
    what String COMMENT 'What was found, one sentence',
    mend String COMMENT 'How to mend it; empty where all is well',
    checked_at DateTime64(3, 'UTC') COMMENT 'When this was found, UTC; long ago where the process no longer runs',
    process String COMMENT 'Host and number of the process that serves'
)
COMMENT 'How the service stands, one row a process and thing looked at, as it was found last'
AS
SELECT name, state, what, mend, checked_at, process
FROM health_log
WHERE (process, checked_at) IN (SELECT process, max(checked_at) FROM health_log GROUP BY process);

CREATE TABLE IF NOT EXISTS measures_log
(
    checked_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When this was measured, UTC',
    process LowCardinality(String) COMMENT 'Host and number of the process that serves',
    measure LowCardinality(String) COMMENT 'What was measured, as /metrics names it; its unit ends the name',
    label String COMMENT 'Of what: an exporter, a reason, a stage, a task; empty where there is only one',
    value Float64 COMMENT 'The number' CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(checked_at)
ORDER BY (measure, label, process, checked_at)
COMMENT 'What the service measures of itself, over time; read the latest as measures';

CREATE VIEW IF NOT EXISTS measures
(
    measure String COMMENT 'What was measured, as /metrics names it; its unit ends the name',
    label String COMMENT 'Of what: an exporter, a reason, a stage, a task; empty where there is only one',
    value Float64 COMMENT 'The number',
    checked_at DateTime64(3, 'UTC') COMMENT 'When this was measured, UTC',
    process String COMMENT 'Host and number of the process that serves'
)
COMMENT 'What the service measures of itself, one row a process, measure and label, as it was last'
AS
SELECT measure, label, argMax(m.value, m.checked_at) AS value, max(m.checked_at) AS checked_at, process
FROM measures_log AS m
GROUP BY process, measure, label;

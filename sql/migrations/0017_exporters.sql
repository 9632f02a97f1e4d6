-- What each window found of the exporters in it. A revision holds those of its window.

-- A working of a window replaces what was found in it and in those after it, as it does findings about no single job.
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

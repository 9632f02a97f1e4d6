-- What windows found of exporters, over time: one clock that drifts puts flows of several switches out of order.

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
ASOF LEFT JOIN revision_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.window_start < c.until_time) AND l.revision IN (SELECT revision FROM published);

-- How long the parts of a window's working took.

ALTER TABLE windows_log
    ADD COLUMN IF NOT EXISTS seconds Map(LowCardinality(String), Float64) COMMENT 'How long each part of the working took, seconds';

CREATE VIEW IF NOT EXISTS stage_seconds
(
    window_start DateTime64(9, 'UTC') COMMENT 'Start of the window, UTC',
    worked_at DateTime64(3, 'UTC') COMMENT 'When it was last worked, UTC',
    stage String COMMENT 'Part of the working: read, examine, write',
    seconds Float64 COMMENT 'How long it took, seconds'
)
COMMENT 'How long the parts of each window''s last working took, one row a window and part'
AS
SELECT window_start, worked_at, stage, seconds
FROM windows_log FINAL
ARRAY JOIN mapKeys(seconds) AS stage, mapValues(seconds) AS seconds;

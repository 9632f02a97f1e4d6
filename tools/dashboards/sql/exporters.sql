-- Purpose: makes what windows found of exporters: the leaves and eight spines, one of which has a wrong clock.
-- Parameters: leaves.
INSERT INTO exporters_log
    (window_start, exporter, revision, idle_timeout_s, active_timeout_s, clock_offset_s, clock_uncertainty_s, clock_matches)
SELECT
    window_start,
    if(number < {leaves:UInt32}, concat('leaf-', toString(intDiv(number, 8)), '-', toString(number % 8)), concat('spine-', toString(number - {leaves:UInt32}))),
    revision, 0.01, 60, if(number = 3, 0.12, 0.0004 * (cityHash64(number, revision) % 2000 / 1000 - 1)), 0.0002, 900
FROM windows_log
CROSS JOIN numbers({leaves:UInt32} + 8) AS n
WHERE status = 'worked';

-- Purpose: list the findings that are of no incident for the summary that `prism-ch run` prints: habits, changed work,
--   imbalance.
-- Parameters: none.
-- Result: job_id, kind, severity String; is_open UInt8; first_step, last_step UInt64; start_ns, end_ns Int64; summary String;
--   the most severe first, of those the most costly.
SELECT
    job_id,
    kind::String AS kind,
    severity::String AS severity,
    status = 'open' AS is_open,
    first_step,
    last_step,
    toUnixTimestamp64Nano(start_time) AS start_ns,
    toUnixTimestamp64Nano(end_time) AS end_ns,
    summary
FROM diagnoses AS d
WHERE d.incident_id = ''
ORDER BY d.severity DESC, slowdown DESC, start_time, diagnosis_id;

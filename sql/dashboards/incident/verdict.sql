-- What is wrong and what to do about it, in whole sentences; times are UTC.
SELECT
    summary AS "What is wrong",
    action AS "What to do",
    severity::String AS "Severity",
    status::String AS "Status",
    confidence AS "Sure",
    start_time AS "Since",
    end_time AS "Until"
FROM incidents
WHERE incident_id IN (${incident:sqlstring})

-- Purpose: read the incidents that were open before a window, had ended shortly before, or are asked for.
-- Parameters: before_ns: start of the window; since_ns: ended ones of before are left out but for
--   incident_ids. Nanoseconds since the epoch.
-- Result: the fields of an Incident, Enums as text, times as Int64 nanoseconds, costs as JSON; by start, incident_id.
WITH cut AS
(
    SELECT
        job_id,
        revision,
        min(from_time) OVER (ORDER BY revision DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS until_time
    FROM revisions
    WHERE cuts AND job_id = '' AND window_start < fromUnixTimestamp64Nano({before_ns:Int64})
)
SELECT
    incident_id,
    toString(kind) AS kind,
    toString(subject_type) AS subject_type,
    subject,
    may_also_be,
    confidence,
    toUnixTimestamp64Nano(noted_time) AS noted_ns,
    toUnixTimestamp64Nano(start_time) AS start_ns,
    toUnixTimestamp64Nano(end_time) AS end_ns,
    toString(status) AS status,
    toString(severity) AS severity,
    summary,
    action,
    costs
FROM
(
    SELECT l.*
    FROM (SELECT *, '' AS job_id FROM incidents_log WHERE tenant = '') AS l
    ASOF LEFT JOIN cut AS c ON l.job_id = c.job_id AND l.revision < c.revision
    WHERE (c.revision = 0 OR l.noted_time < c.until_time)
        AND l.revision IN (SELECT revision FROM published WHERE window_start < fromUnixTimestamp64Nano({before_ns:Int64}))
    ORDER BY l.revision DESC
    LIMIT 1 BY l.incident_id
)
WHERE NOT is_withdrawn AND (status = 'open' OR end_time >= fromUnixTimestamp64Nano({since_ns:Int64}) OR has({incident_ids:Array(String)}, incident_id))
ORDER BY start_ns, incident_id;

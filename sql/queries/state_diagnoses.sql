-- Purpose: read the findings that were open before a window, and the stalls before it that cost something.
-- Parameters: job_ids ('' for findings about no single job); before_ns: start of the window, nanoseconds since the epoch.
-- Result: job_id and the fields of a Diagnosis, Enums as text, times as Int64 nanoseconds; by job_id, start, diagnosis_id.
WITH cut AS
(
    SELECT
        job_id,
        revision,
        min(from_time) OVER (PARTITION BY job_id ORDER BY revision DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS until_time
    FROM revisions
    WHERE cuts AND job_id IN ({job_ids:Array(String)}) AND window_start < fromUnixTimestamp64Nano({before_ns:Int64})
)
SELECT
    job_id,
    diagnosis_id,
    toString(kind) AS kind,
    toString(subject_type) AS subject_type,
    subject,
    first_step,
    last_step,
    toUnixTimestamp64Nano(start_time) AS start_ns,
    toUnixTimestamp64Nano(end_time) AS end_ns,
    toString(status) AS status,
    toString(severity) AS severity,
    observed,
    expected,
    score,
    slowdown,
    summary,
    evidence,
    incident_id,
    confidence,
    baseline
FROM
(
    SELECT l.*
    FROM diagnoses_log AS l
    ASOF LEFT JOIN cut AS c ON l.job_id = c.job_id AND l.revision < c.revision
    WHERE l.job_id IN ({job_ids:Array(String)})
        AND (c.revision = 0 OR start_time < until_time)
        AND l.revision IN (SELECT revision FROM published WHERE window_start < fromUnixTimestamp64Nano({before_ns:Int64}))
    ORDER BY l.revision DESC
    LIMIT 1 BY l.diagnosis_id
)
WHERE status = 'open' OR (kind = 'stall' AND slowdown > 0)
ORDER BY job_id, start_ns, diagnosis_id;

-- Steps with the findings on them, by meeting each finding at each of its steps: joining all steps of a job with all its
-- findings and comparing afterwards took seconds over a week.

CREATE OR REPLACE VIEW diagnosed_steps
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen',
    start_time DateTime64(9) COMMENT 'End of the step before it; of the first its earliest start over endpoints, UTC',
    end_time DateTime64(9) COMMENT 'Latest end over its endpoints, UTC',
    duration_s Float64 COMMENT 'From start to end, seconds',
    findings UInt32 COMMENT 'Findings that concern the step, count',
    severity LowCardinality(String) COMMENT 'The worst of their severities; empty where there is none',
    kinds Array(String) COMMENT 'Their kinds, without repeats, worst first',
    diagnosis_ids Array(String) COMMENT 'Their identities, worst first',
    summaries Array(String) COMMENT 'Their summaries, worst first'
)
COMMENT 'Every step with the findings on it, one row a job and step'
AS
WITH
    ends AS
    (
        SELECT job_id, max(step) AS last_step
        FROM steps
        GROUP BY job_id
    ),
    on_steps AS
    (
        SELECT
            d.job_id AS job_id,
            arrayJoin(range(d.first_step, least(d.last_step, e.last_step) + 1)) AS step,
            arrayReverseSort(groupArray((d.severity, d.score, d.kind::String, d.diagnosis_id, d.summary))) AS found
        FROM diagnoses AS d
        INNER JOIN ends AS e ON d.job_id = e.job_id
        GROUP BY job_id, step
    )
SELECT
    s.job_id, s.tenant, s.step, s.start_time, s.end_time, s.duration_s,
    length(f.found) AS findings,
    if(empty(f.found), '', f.found[1].1::String) AS severity,
    arrayDistinct(f.found.3) AS kinds,
    f.found.4 AS diagnosis_ids,
    f.found.5 AS summaries
FROM steps AS s
LEFT JOIN on_steps AS f ON s.job_id = f.job_id AND s.step = f.step;

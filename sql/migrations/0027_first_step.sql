-- When the first step of a job begins: a usual step before its end, where its traffic reaches back that far.

ALTER TABLE steps_log COMMENT COLUMN IF EXISTS start_time 'End of the step before it; of the first a usual step before its end, or its earliest start, UTC';

CREATE OR REPLACE VIEW steps
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen',
    start_time DateTime64(9) COMMENT 'End of the step before it; of the first a usual step before its end, or its earliest start, UTC',
    end_time DateTime64(9) COMMENT 'Latest end over its endpoints, UTC',
    duration_s Float64 COMMENT 'From start to end, seconds',
    compute_s Float64 COMMENT 'Time without network phases, mean over endpoints, seconds',
    pp_s Float64 COMMENT 'Time in pipeline phases, mean over endpoints, seconds',
    dp_s Float64 COMMENT 'Time in data-parallel phases, mean over endpoints, seconds',
    slowest_endpoint String COMMENT 'Address of the endpoint that kept the others waiting, empty where records tell no single one',
    slowest_endpoints Array(String) COMMENT 'Addresses of those that kept the others waiting and can not be told apart; empty where nobody did',
    complete UInt8 COMMENT '1 where the whole step was seen, 0 where its beginning was not'
)
COMMENT 'Training steps, one row a job and step'
AS
SELECT
    l.job_id, l.tenant, l.step, l.start_time, l.end_time,
    l.duration_s, l.compute_s, l.pp_s, l.dp_s, l.slowest_endpoint, l.slowest_endpoints, l.complete
FROM steps_log AS l
ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.step < c.until_step) AND l.revision IN (SELECT revision FROM {published});

CREATE OR REPLACE VIEW diagnosed_steps
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen',
    start_time DateTime64(9) COMMENT 'End of the step before it; of the first a usual step before its end, or its earliest start, UTC',
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

-- Findings. A revision holds those that it opened or changed.

CREATE TABLE IF NOT EXISTS diagnoses_log
(
    job_id String COMMENT 'The job; empty where the finding concerns a switch or an exporter',
    revision UInt64 COMMENT 'Number of the working that wrote the row',
    diagnosis_id String COMMENT 'Identity of the finding while it lasts',
    tenant String COMMENT 'Tenant of the job; empty where there is no single one',
    kind Enum8(
        'slow_step' = 1, 'slow_group' = 2, 'slow_switch' = 3, 'slow_gpu' = 4, 'slow_nic' = 5, 'slow_link' = 6,
        'congestion' = 7, 'stall' = 8, 'hang' = 9, 'restart' = 10, 'imbalance' = 11, 'telemetry' = 12
    ) COMMENT 'What is wrong',
    subject_type Enum8(
        'job' = 1, 'group' = 2, 'endpoint' = 3, 'server' = 4, 'switch' = 5, 'link' = 6, 'exporter' = 7
    ) COMMENT 'What kind of thing it is about',
    subject String COMMENT 'Which one; a link is a->b',
    first_step UInt64 COMMENT 'First step concerned',
    last_step UInt64 COMMENT 'Last step concerned so far',
    start_time DateTime64(9) COMMENT 'When it began, UTC',
    end_time DateTime64(9) COMMENT 'When it ended or was last seen, UTC',
    status Enum8('open' = 1, 'closed' = 2) COMMENT 'Whether it still lasts',
    severity Enum8('info' = 1, 'warning' = 2, 'critical' = 3) COMMENT 'What it costs: warning from 5 % of the job''s time or 10 GPU-minutes, critical from 20 % or 10 GPU-hours',
    observed Float64 COMMENT 'What was measured: seconds for steps, groups and GPUs, bytes per second for switches and links',
    expected Float64 COMMENT 'What it should have been, in the unit of observed',
    score Float64 COMMENT 'Distance of the two, robust standard deviations',
    slowdown Float64 COMMENT 'Share of the job''s time lost while it lasts, 0 to 1',
    summary String COMMENT 'One sentence a person can act on',
    evidence String COMMENT 'What it rests on, JSON',
    incident_id String COMMENT 'The incident that it belongs to; empty where it belongs to none',
    confidence Float64 COMMENT 'Probability that the subject is right, 0 to 1',
    baseline String COMMENT 'What later windows compare with, JSON; internal',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(written_at)
ORDER BY (job_id, diagnosis_id, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Findings, one row a finding and revision that changed it; read it as diagnoses';

CREATE VIEW IF NOT EXISTS diagnoses
(
    diagnosis_id String COMMENT 'Identity of the finding while it lasts',
    job_id String COMMENT 'The job; empty where the finding concerns a switch or an exporter',
    tenant String COMMENT 'Tenant of the job; empty where there is no single one',
    kind Enum8(
        'slow_step' = 1, 'slow_group' = 2, 'slow_switch' = 3, 'slow_gpu' = 4, 'slow_nic' = 5, 'slow_link' = 6,
        'congestion' = 7, 'stall' = 8, 'hang' = 9, 'restart' = 10, 'imbalance' = 11, 'telemetry' = 12
    ) COMMENT 'What is wrong',
    subject_type Enum8(
        'job' = 1, 'group' = 2, 'endpoint' = 3, 'server' = 4, 'switch' = 5, 'link' = 6, 'exporter' = 7
    ) COMMENT 'What kind of thing it is about',
    subject String COMMENT 'Which one; a link is a->b',
    first_step UInt64 COMMENT 'First step concerned',
    last_step UInt64 COMMENT 'Last step concerned so far',
    start_time DateTime64(9) COMMENT 'When it began, UTC',
    end_time DateTime64(9) COMMENT 'When it ended or was last seen, UTC',
    status Enum8('open' = 1, 'closed' = 2) COMMENT 'Whether it still lasts',
    severity Enum8('info' = 1, 'warning' = 2, 'critical' = 3) COMMENT 'What it costs: warning from 5 % of the job''s time or 10 GPU-minutes, critical from 20 % or 10 GPU-hours',
    observed Float64 COMMENT 'What was measured: seconds for steps, groups and GPUs, bytes per second for switches and links',
    expected Float64 COMMENT 'What it should have been, in the unit of observed',
    score Float64 COMMENT 'Distance of the two, robust standard deviations',
    slowdown Float64 COMMENT 'Share of the job''s time lost while it lasts, 0 to 1',
    summary String COMMENT 'One sentence a person can act on',
    evidence String COMMENT 'What it rests on, JSON',
    incident_id String COMMENT 'The incident that it belongs to; empty where it belongs to none',
    confidence Float64 COMMENT 'Probability that the subject is right, 0 to 1'
)
COMMENT 'Findings, one row each'
AS
SELECT
    l.diagnosis_id, l.job_id, l.tenant, l.kind, l.subject_type, l.subject, l.first_step, l.last_step,
    l.start_time, l.end_time, l.status, l.severity, l.observed, l.expected, l.score, l.slowdown, l.summary, l.evidence,
    l.incident_id, l.confidence
FROM diagnoses_log AS l
ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.start_time < c.until_time) AND l.revision IN (SELECT revision FROM {published})
ORDER BY l.revision DESC
LIMIT 1 BY l.diagnosis_id;

-- Each finding is met at each of its steps: joining all steps of a job with all its findings first takes seconds over a week.
CREATE VIEW IF NOT EXISTS diagnosed_steps
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

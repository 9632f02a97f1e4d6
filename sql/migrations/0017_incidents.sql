-- Incidents. A revision holds those that it opened or changed: each whole, and the part of each tenant that it concerns.

CREATE TABLE IF NOT EXISTS incidents_log
(
    incident_id String COMMENT 'Identity of the incident while it lasts',
    revision UInt64 COMMENT 'Number of the working that wrote the row',
    tenant String COMMENT 'Whose part it is; empty where it is the whole',
    noted_time DateTime64(9) COMMENT 'Start of the window that showed it first, UTC',
    kind Enum8(
        'slow_step' = 1, 'slow_group' = 2, 'slow_switch' = 3, 'slow_gpu' = 4, 'slow_nic' = 5, 'slow_link' = 6,
        'congestion' = 7, 'stall' = 8, 'hang' = 9, 'restart' = 10, 'imbalance' = 11, 'telemetry' = 12
    ) COMMENT 'What is wrong',
    subject_type Enum8(
        'job' = 1, 'group' = 2, 'endpoint' = 3, 'server' = 4, 'switch' = 5, 'link' = 6, 'exporter' = 7, 'stage' = 8
    ) COMMENT 'What kind of thing it is about',
    subject String COMMENT 'Which one; a link or uplink is a->b, a stage is job_id/stage/N',
    may_also_be Array(String) COMMENT 'What explains the same records just as well',
    confidence Float64 COMMENT 'Probability that the subject is right, 0 to 1',
    start_time DateTime64(9) COMMENT 'When it began, UTC',
    end_time DateTime64(9) COMMENT 'When it ended or was last seen, UTC',
    status Enum8('open' = 1, 'closed' = 2) COMMENT 'Whether it still lasts',
    severity Enum8('info' = 1, 'warning' = 2, 'critical' = 3) COMMENT 'What it costs: warning from 5 % of the jobs'' time or 10 GPU-minutes, critical from 20 % or 10 GPU-hours',
    jobs Array(String) COMMENT 'The jobs that it slows or stops',
    tenants Array(String) COMMENT 'Their tenants',
    gpus UInt32 COMMENT 'GPUs in those jobs, count',
    lost_gpu_h Float64 COMMENT 'What they lost to it so far, GPU-hours',
    slowdown Float64 COMMENT 'Lost share of those jobs'' time while it lasts, 0 to 1',
    summary String COMMENT 'One sentence that says what is wrong',
    action String COMMENT 'One sentence that says what to do',
    costs String COMMENT 'What it cost each job, JSON; internal',
    is_withdrawn UInt8 COMMENT '1 where it turned out to be part of another one, or of nothing',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(written_at)
ORDER BY (incident_id, tenant, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Incidents, one row an incident, part and revision that changed it; read it as incidents';

-- An operator sees the whole, a tenant only his part: of what either may read, the whole comes first.
CREATE VIEW IF NOT EXISTS incidents
(
    incident_id String COMMENT 'Identity of the incident while it lasts',
    kind Enum8(
        'slow_step' = 1, 'slow_group' = 2, 'slow_switch' = 3, 'slow_gpu' = 4, 'slow_nic' = 5, 'slow_link' = 6,
        'congestion' = 7, 'stall' = 8, 'hang' = 9, 'restart' = 10, 'imbalance' = 11, 'telemetry' = 12
    ) COMMENT 'What is wrong',
    subject_type Enum8(
        'job' = 1, 'group' = 2, 'endpoint' = 3, 'server' = 4, 'switch' = 5, 'link' = 6, 'exporter' = 7, 'stage' = 8
    ) COMMENT 'What kind of thing it is about',
    subject String COMMENT 'Which one; a link or uplink is a->b, a stage is job_id/stage/N',
    may_also_be Array(String) COMMENT 'What explains the same records just as well',
    confidence Float64 COMMENT 'Probability that the subject is right, 0 to 1',
    start_time DateTime64(9) COMMENT 'When it began, UTC',
    end_time DateTime64(9) COMMENT 'When it ended or was last seen, UTC',
    status Enum8('open' = 1, 'closed' = 2) COMMENT 'Whether it still lasts',
    severity Enum8('info' = 1, 'warning' = 2, 'critical' = 3) COMMENT 'What it costs: warning from 5 % of the jobs'' time or 10 GPU-minutes, critical from 20 % or 10 GPU-hours',
    jobs Array(String) COMMENT 'The jobs that it slows or stops',
    tenants Array(String) COMMENT 'Their tenants',
    gpus UInt32 COMMENT 'GPUs in those jobs, count',
    lost_gpu_h Float64 COMMENT 'What they lost to it so far, GPU-hours',
    slowdown Float64 COMMENT 'Lost share of those jobs'' time while it lasts, 0 to 1',
    summary String COMMENT 'One sentence that says what is wrong',
    action String COMMENT 'One sentence that says what to do'
)
COMMENT 'What is wrong at one place in one stretch of time, over all jobs that it concerns, one row each'
AS
SELECT
    incident_id, kind, subject_type, subject, may_also_be, confidence, start_time, end_time, status, severity, jobs,
    tenants, gpus, lost_gpu_h, slowdown, summary, action
FROM
(
    SELECT l.*
    FROM (SELECT *, '' AS job_id FROM incidents_log) AS l
    ASOF LEFT JOIN {revision_cuts} AS c ON l.job_id = c.job_id AND l.revision < c.revision
    WHERE (c.revision = 0 OR l.noted_time < c.until_time) AND l.revision IN (SELECT revision FROM {published})
    ORDER BY l.tenant = '' DESC, l.revision DESC
    LIMIT 1 BY l.incident_id
)
WHERE NOT is_withdrawn;

CREATE VIEW IF NOT EXISTS dead_incidents
(
    incident_id String COMMENT 'Identity of an incident',
    revision UInt64 COMMENT 'Number of a working that wrote it and was replaced'
)
COMMENT 'Incidents that nobody will read again as that revision has them'
AS
WITH
    judged AS
    (
        SELECT
            l.incident_id AS incident_id, l.revision AS revision, l.tenant AS tenant,
            c.revision > 0 AND l.noted_time >= c.until_time AS is_cut
        FROM (SELECT *, '' AS job_id FROM incidents_log) AS l
        ASOF LEFT JOIN final_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
    ),
    -- The newest row of each incident that is never cut itself.
    newest AS
    (
        SELECT incident_id, max(j.revision) AS revision
        FROM judged AS j
        WHERE NOT is_cut
            AND j.revision IN (SELECT revision FROM published WHERE window_start <= (SELECT pruned_until FROM prune_horizon))
        GROUP BY incident_id
    )
SELECT DISTINCT j.incident_id AS incident_id, j.revision AS revision
FROM judged AS j
LEFT JOIN newest AS n ON j.incident_id = n.incident_id
WHERE j.is_cut OR j.revision < n.revision;

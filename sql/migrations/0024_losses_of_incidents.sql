-- What a job lost is what its incidents cost it, places that it shares with others included: incidents and losses have one number.

CREATE OR REPLACE VIEW incidents
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
    action String COMMENT 'One sentence that says what to do',
    jobs_lost_s Array(Float64) COMMENT 'What each of the jobs lost to it so far, in their order, seconds',
    jobs_gpus Array(UInt32) COMMENT 'GPUs in each of the jobs, in their order, count'
)
COMMENT 'What is wrong at one place in one stretch of time, over all jobs that it concerns, one row each'
AS
WITH JSONExtract(costs, 'Array(Tuple(job_id String, gpus UInt32, lost_s Float64))') AS parts
SELECT
    incident_id, kind, subject_type, subject, may_also_be, confidence, start_time, end_time, status, severity, jobs,
    tenants, gpus, lost_gpu_h, slowdown, summary, action,
    arrayMap(job -> arraySum(one -> if(one.job_id = job, one.lost_s, 0), parts), jobs) AS jobs_lost_s,
    arrayMap(job -> arraySum(one -> if(one.job_id = job, one.gpus, 0), parts)::UInt32, jobs) AS jobs_gpus
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

CREATE OR REPLACE VIEW losses
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    cause Enum8(
        'slow_step' = 1, 'slow_group' = 2, 'slow_switch' = 3, 'slow_gpu' = 4, 'slow_nic' = 5, 'slow_link' = 6,
        'congestion' = 7, 'stall' = 8, 'hang' = 9, 'restart' = 10, 'imbalance' = 11, 'telemetry' = 12
    ) COMMENT 'Kind of the findings and incidents; imbalance and telemetry never appear, they cost no time',
    findings UInt64 COMMENT 'Findings of that kind on the job, count; 0 where others are evidence of its incidents',
    open_findings UInt64 COMMENT 'Those that still last, count',
    first_time DateTime64(9) COMMENT 'Start of the first of them, or of the incidents, UTC',
    last_time DateTime64(9) COMMENT 'End of the last of them, or of the incidents, UTC',
    lost_s Float64 COMMENT 'Time that the job lost to incidents of that kind, seconds',
    gpu_hours_lost Float64 COMMENT 'That time over all its GPUs, GPU-hours',
    interruptions UInt64 COMMENT 'Findings among them that the job stood still or began anew, count',
    gap_s Float64 COMMENT 'Time that it stood still in them, seconds',
    members_before UInt32 COMMENT 'Endpoints before the last restart; 0 for other causes',
    members_after UInt32 COMMENT 'Endpoints after the last restart; 0 for other causes'
)
COMMENT 'What each cause cost each job, as its incidents say; the rows of a job add up to what it lost'
AS
WITH
    parts AS
    (
        SELECT job_id, kind AS cause, start_time, end_time, status, evidence, 1 AS is_finding, 0. AS part_s, 0 AS part_gpus
        FROM diagnoses
        UNION ALL
        SELECT job, kind, start_time, end_time, status, '', 0, part_s, part_gpus
        FROM (SELECT kind, start_time, end_time, status, jobs, jobs_lost_s, jobs_gpus FROM incidents)
        ARRAY JOIN jobs AS job, jobs_lost_s AS part_s, jobs_gpus AS part_gpus
        WHERE part_s > 0
    )
SELECT
    p.job_id AS job_id,
    any(j.tenant) AS tenant,
    cause,
    sum(is_finding) AS findings,
    sum(is_finding AND status = 'open') AS open_findings,
    if(findings > 0, minIf(start_time, is_finding), min(start_time)) AS first_time,
    if(findings > 0, maxIf(end_time, is_finding), max(end_time)) AS last_time,
    sum(round(part_s * 1e9)::Int64) / 1e9 AS lost_s,
    sum(round(part_s * 1e9)::Int128 * part_gpus) / 1e9 / 3600 AS gpu_hours_lost,
    sum(is_finding AND cause IN ('stall', 'hang', 'restart')) AS interruptions,
    sumIf(
        toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time), is_finding AND cause IN ('stall', 'hang', 'restart')
    ) / 1e9 AS gap_s,
    argMaxIf(JSONExtractUInt(evidence, 'members_before')::UInt32, start_time, is_finding) AS members_before,
    argMaxIf(JSONExtractUInt(evidence, 'members_after')::UInt32, start_time, is_finding) AS members_after
FROM parts AS p
INNER JOIN (SELECT job_id, tenant FROM jobs) AS j ON p.job_id = j.job_id
WHERE cause NOT IN ('imbalance', 'telemetry')
GROUP BY job_id, cause;

CREATE OR REPLACE VIEW tenant_summary
(
    tenant String COMMENT 'Tenant; empty where the topology names none',
    jobs UInt64 COMMENT 'Jobs seen, count',
    running_jobs UInt64 COMMENT 'Those that run now, count',
    gpus UInt64 COMMENT 'GPUs of those that run now, count',
    steps UInt64 COMMENT 'Training steps of all jobs, count',
    gpu_hours Float64 COMMENT 'Time of those steps over the GPUs of their jobs, GPU-hours',
    gpu_hours_lost Float64 COMMENT 'What the jobs lost to all causes, as losses says, GPU-hours',
    findings UInt64 COMMENT 'Findings on the jobs, count',
    open_findings UInt64 COMMENT 'Those that still last, count',
    worst_open LowCardinality(String) COMMENT 'Worst severity of a finding that still lasts; empty where there is none'
)
COMMENT 'Jobs, GPU-hours and findings of each tenant, one row a tenant'
AS
WITH
    taken AS (SELECT job_id, sum(round(duration_s * 1e9)::Int64) AS taken_ns FROM steps GROUP BY job_id),
    lost AS
    (
        SELECT job_id, sum(round(lost_s * 1e9)::Int128 * of_gpus) AS lost_gpu_ns
        FROM (SELECT jobs, jobs_lost_s, jobs_gpus FROM incidents)
        ARRAY JOIN jobs AS job_id, jobs_lost_s AS lost_s, jobs_gpus AS of_gpus
        GROUP BY job_id
    ),
    found AS
    (
        SELECT job_id, count() AS findings, countIf(status = 'open') AS open_findings, maxIf(severity::Int8, status = 'open') AS worst
        FROM diagnoses
        GROUP BY job_id
    )
SELECT
    j.tenant AS tenant,
    count() AS jobs,
    countIf(j.status = 'running') AS running_jobs,
    sumIf(j.endpoints, j.status = 'running') AS gpus,
    sum(j.steps) AS steps,
    sum(t.taken_ns::Int128 * j.endpoints) / 1e9 / 3600 AS gpu_hours,
    sum(l.lost_gpu_ns) / 1e9 / 3600 AS gpu_hours_lost,
    sum(f.findings) AS findings,
    sum(f.open_findings) AS open_findings,
    ['', 'info', 'warning', 'critical'][max(f.worst) + 1] AS worst_open
FROM (SELECT job_id, tenant, status, endpoints, steps FROM jobs) AS j
LEFT JOIN taken AS t ON j.job_id = t.job_id
LEFT JOIN lost AS l ON j.job_id = l.job_id
LEFT JOIN found AS f ON j.job_id = f.job_id
GROUP BY j.tenant;

DROP VIEW IF EXISTS job_losses;

-- What slowness costs, by cause and by tenant.

-- A finding that says how much time was lost (`lost_s` in its evidence) is taken at its word; another loses its share of the
-- time it lasts. Causes overlap, as a slow link makes a slow group and slow steps: they don't add up.
CREATE VIEW IF NOT EXISTS losses
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    cause Enum8(
        'slow_step' = 1, 'slow_group' = 2, 'slow_switch' = 3, 'slow_gpu' = 4, 'slow_nic' = 5, 'slow_link' = 6,
        'congestion' = 7, 'stall' = 8, 'hang' = 9, 'restart' = 10, 'imbalance' = 11, 'telemetry' = 12
    ) COMMENT 'Kind of the findings; telemetry never appears, it costs no time',
    findings UInt64 COMMENT 'Findings of that kind, count',
    open_findings UInt64 COMMENT 'Those that still last, count',
    first_time DateTime64(9) COMMENT 'Start of the first of them, UTC',
    last_time DateTime64(9) COMMENT 'End of the last of them, UTC',
    lost_s Float64 COMMENT 'Time that the job lost, seconds',
    gpu_hours_lost Float64 COMMENT 'That time over all its GPUs, GPU-hours'
)
COMMENT 'What each cause cost each job; causes overlap and do not add up'
AS
SELECT
    d.job_id AS job_id,
    any(d.tenant) AS tenant,
    d.kind AS cause,
    count() AS findings,
    countIf(d.status = 'open') AS open_findings,
    min(d.start_time) AS first_time,
    max(d.end_time) AS last_time,
    sum(
        if(
            JSONHas(d.evidence, 'lost_s'),
            JSONExtractFloat(d.evidence, 'lost_s'),
            d.slowdown * (toUnixTimestamp64Nano(d.end_time) - toUnixTimestamp64Nano(d.start_time)) / 1e9
        )
    ) AS lost_s,
    lost_s * any(j.endpoints) / 3600 AS gpu_hours_lost
FROM diagnoses AS d
INNER JOIN jobs AS j ON d.job_id = j.job_id
WHERE d.kind != 'telemetry'
GROUP BY d.job_id, d.kind;

-- Lost time counts once here, however many findings name it: what steps with findings took beyond the job's median step.
CREATE VIEW IF NOT EXISTS tenant_summary
(
    tenant String COMMENT 'Tenant; empty where the topology names none',
    jobs UInt64 COMMENT 'Jobs seen, count',
    running_jobs UInt64 COMMENT 'Those that run now, count',
    gpus UInt64 COMMENT 'GPUs of those that run now, count',
    steps UInt64 COMMENT 'Training steps of all jobs, count',
    gpu_hours Float64 COMMENT 'Time of those steps over the GPUs of their jobs, GPU-hours',
    gpu_hours_lost Float64 COMMENT 'Share of it by which steps with findings exceeded the median step of their job, GPU-hours',
    findings UInt64 COMMENT 'Findings on the jobs, count',
    open_findings UInt64 COMMENT 'Those that still last, count',
    worst_open LowCardinality(String) COMMENT 'Worst severity of a finding that still lasts; empty where there is none'
)
COMMENT 'Jobs, GPU-hours and findings of each tenant, one row a tenant'
AS
WITH
    spent AS
    (
        SELECT
            job_id,
            sum(duration_s) AS taken_s,
            sumIf(greatest(duration_s - step_s_median, 0), hasAny(kinds, kinds_that_cost)) AS lost_s
        FROM diagnosed_steps AS s
        INNER JOIN (SELECT job_id, step_s_median FROM jobs) AS j ON s.job_id = j.job_id
        GROUP BY job_id
    ),
    found AS
    (
        SELECT
            job_id,
            count() AS findings,
            countIf(status = 'open') AS open_findings,
            maxIf(severity::Int8, status = 'open') AS worst
        FROM diagnoses
        GROUP BY job_id
    ),
    [
        'slow_step', 'slow_group', 'slow_switch', 'slow_gpu', 'slow_nic', 'slow_link', 'congestion', 'stall', 'hang', 'restart'
    ] AS kinds_that_cost
SELECT
    j.tenant AS tenant,
    count() AS jobs,
    countIf(j.status = 'running') AS running_jobs,
    sumIf(j.endpoints, j.status = 'running') AS gpus,
    sum(j.steps) AS steps,
    sum(s.taken_s * j.endpoints) / 3600 AS gpu_hours,
    sum(s.lost_s * j.endpoints) / 3600 AS gpu_hours_lost,
    sum(f.findings) AS findings,
    sum(f.open_findings) AS open_findings,
    ['', 'info', 'warning', 'critical'][max(f.worst) + 1] AS worst_open
FROM jobs AS j
LEFT JOIN spent AS s ON j.job_id = s.job_id
LEFT JOIN found AS f ON j.job_id = f.job_id
GROUP BY j.tenant;

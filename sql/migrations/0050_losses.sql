-- What slowness and standstill cost, by cause and by tenant, no second of a job twice.

-- A step with findings on it lost what it took beyond the job's usual step, which is the median of its whole steps without
-- any. That counts to one cause, the nearest to the root: a slow NIC makes a slow group and slow steps. A job that stands
-- still has no step yet to lose time in, and loses the time itself.
CREATE OR REPLACE VIEW losses
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    cause Enum8(
        'slow_step' = 1, 'slow_group' = 2, 'slow_switch' = 3, 'slow_gpu' = 4, 'slow_nic' = 5, 'slow_link' = 6,
        'congestion' = 7, 'stall' = 8, 'hang' = 9, 'restart' = 10, 'imbalance' = 11, 'telemetry' = 12
    ) COMMENT 'Kind of the findings; imbalance and telemetry never appear, they cost no time',
    findings UInt64 COMMENT 'Findings of that kind, count',
    open_findings UInt64 COMMENT 'Those that still last, count',
    first_time DateTime64(9) COMMENT 'Start of the first of them, UTC',
    last_time DateTime64(9) COMMENT 'End of the last of them, UTC',
    lost_s Float64 COMMENT 'Time that the job lost to this cause and to none nearer to the root, seconds',
    gpu_hours_lost Float64 COMMENT 'That time over all its GPUs, GPU-hours',
    interruptions UInt64 COMMENT 'Findings among them that the job stood still or began anew, count',
    gap_s Float64 COMMENT 'Time that it stood still in them, seconds',
    members_before UInt32 COMMENT 'Endpoints before the last restart; 0 for other causes',
    members_after UInt32 COMMENT 'Endpoints after the last restart; 0 for other causes'
)
COMMENT 'What each cause cost each job; the rows of a job add up to what it lost'
AS
WITH
    [
        'restart', 'hang', 'stall', 'slow_gpu', 'slow_nic', 'slow_link', 'slow_switch', 'congestion', 'slow_group', 'slow_step'
    ] AS from_the_root,
    ends AS
    (
        SELECT job_id, max(step) AS last_step
        FROM steps
        GROUP BY job_id
    ),
    causes AS
    (
        SELECT
            d.job_id AS job_id,
            arrayJoin(range(d.first_step, least(d.last_step, e.last_step) + 1)) AS step,
            argMin(d.kind, indexOf(from_the_root, d.kind::String)) AS cause
        FROM diagnoses AS d
        INNER JOIN ends AS e ON d.job_id = e.job_id
        WHERE has(from_the_root, d.kind::String)
        GROUP BY job_id, step
    ),
    judged AS
    (
        SELECT s.job_id AS job_id, s.duration_s AS duration_s, s.complete AS complete, c.job_id != '' AS is_caused, c.cause AS cause
        FROM steps AS s
        LEFT JOIN causes AS c ON s.job_id = c.job_id AND s.step = c.step
    ),
    usual AS
    (
        SELECT
            job_id,
            if(
                countIf(complete = 1 AND NOT is_caused) > 0,
                quantileExactIf(0.5)(duration_s, complete = 1 AND NOT is_caused),
                min(duration_s)
            ) AS usual_s
        FROM judged
        GROUP BY job_id
    ),
    in_steps AS
    (
        SELECT t.job_id AS job_id, t.cause AS cause, sum(greatest(t.duration_s - u.usual_s, 0)) AS lost_s
        FROM judged AS t
        INNER JOIN usual AS u ON t.job_id = u.job_id
        WHERE t.is_caused
        GROUP BY t.job_id, t.cause
    ),
    measured AS
    (
        SELECT
            d.job_id AS job_id, d.tenant AS tenant, d.kind AS kind, d.status AS status, d.start_time AS start_time, d.end_time AS end_time,
            d.kind IN ('stall', 'hang', 'restart') AS is_stop,
            is_stop AND d.first_step > e.last_step AS is_beyond_steps,
            (toUnixTimestamp64Nano(d.end_time) - toUnixTimestamp64Nano(d.start_time)) / 1e9 AS length_s,
            JSONExtractUInt(d.evidence, 'members_before')::UInt32 AS before,
            JSONExtractUInt(d.evidence, 'members_after')::UInt32 AS after
        FROM diagnoses AS d
        LEFT JOIN ends AS e ON d.job_id = e.job_id
        WHERE has(from_the_root, d.kind::String)
    ),
    found AS
    (
        SELECT
            job_id,
            kind AS cause,
            any(m.tenant) AS tenant,
            count() AS findings,
            countIf(status = 'open') AS open_findings,
            min(start_time) AS first_time,
            max(end_time) AS last_time,
            countIf(is_stop) AS interruptions,
            sumIf(length_s, is_stop) AS gap_s,
            maxIf(length_s, is_beyond_steps) AS still_lost_s,
            argMax(before, start_time) AS members_before,
            argMax(after, start_time) AS members_after
        FROM measured AS m
        GROUP BY job_id, kind
    )
SELECT
    f.job_id AS job_id, f.tenant AS tenant, f.cause AS cause, f.findings AS findings, f.open_findings AS open_findings,
    f.first_time AS first_time, f.last_time AS last_time,
    s.lost_s + f.still_lost_s AS lost_s,
    lost_s * j.endpoints / 3600 AS gpu_hours_lost,
    f.interruptions AS interruptions, f.gap_s AS gap_s, f.members_before AS members_before, f.members_after AS members_after
FROM found AS f
INNER JOIN jobs AS j ON f.job_id = j.job_id
LEFT JOIN in_steps AS s ON f.job_id = s.job_id AND f.cause = s.cause;

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
    spent AS
    (
        SELECT job_id, sum(duration_s) AS taken_s
        FROM steps
        GROUP BY job_id
    ),
    lost AS
    (
        SELECT job_id, sum(gpu_hours_lost) AS gpu_hours
        FROM losses
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
    )
SELECT
    j.tenant AS tenant,
    count() AS jobs,
    countIf(j.status = 'running') AS running_jobs,
    sumIf(j.endpoints, j.status = 'running') AS gpus,
    sum(j.steps) AS steps,
    sum(s.taken_s * j.endpoints) / 3600 AS gpu_hours,
    sum(l.gpu_hours) AS gpu_hours_lost,
    sum(f.findings) AS findings,
    sum(f.open_findings) AS open_findings,
    ['', 'info', 'warning', 'critical'][max(f.worst) + 1] AS worst_open
FROM jobs AS j
LEFT JOIN spent AS s ON j.job_id = s.job_id
LEFT JOIN lost AS l ON j.job_id = l.job_id
LEFT JOIN found AS f ON j.job_id = f.job_id
GROUP BY j.tenant;

-- Sums of seconds are taken in whole nanoseconds: their last digit no longer depends on the order in which merges leave the rows.

CREATE OR REPLACE VIEW job_losses
(
    job_id String COMMENT 'The job',
    last_step UInt64 COMMENT 'Number of its latest step',
    taken_s Float64 COMMENT 'Time of all its steps, seconds',
    lost_s Array(Float64) COMMENT 'Of that what was lost to each cause, seconds: restart, hang, stall, slow_gpu, slow_nic, slow_link, slow_switch, congestion, slow_group, slow_step'
)
COMMENT 'What the steps of each job took and lost, one row each; losses says it by cause, with standstill'
AS
WITH
    [
        'restart', 'hang', 'stall', 'slow_gpu', 'slow_nic', 'slow_link', 'slow_switch', 'congestion', 'slow_group', 'slow_step'
    ] AS from_the_root,
    causes AS
    (
        SELECT
            job_id,
            arrayJoin(range(first_step, last_step + 1)) AS step,
            min(if(slowdown > 0, indexOf(from_the_root, kind::String), length(from_the_root) + 1)) AS rank,
            max(slowdown) AS share
        FROM diagnoses
        WHERE job_id != '' AND has(from_the_root, kind::String)
        GROUP BY job_id, step
    ),
    judged AS
    (
        SELECT
            s.job_id AS job_id,
            max(s.step) AS last_step,
            sum(round(s.duration_s * 1e9)::Int64) / 1e9 AS taken_s,
            quantileExactIf(0.5)(s.duration_s, s.complete = 1 AND c.rank = 0) AS healthy_s,
            groupArrayIf((c.rank, s.duration_s, c.share), c.rank > 0) AS concerned
        FROM steps AS s
        LEFT JOIN causes AS c ON s.job_id = c.job_id AND s.step = c.step
        GROUP BY s.job_id
    )
SELECT
    job_id,
    last_step,
    taken_s,
    arrayMap(
        nth -> arraySum(
            arrayMap(
                of -> round(multiIf(of.1 != nth, 0, isNaN(healthy_s), of.2 * of.3, greatest(of.2 - healthy_s, 0)) * 1e9)::Int64,
                concerned
            )
        ) / 1e9,
        arrayEnumerate(from_the_root)
    ) AS lost_s
FROM judged;

-- A job that stands still has no step yet to lose time in, and loses the time itself.
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
    measured AS
    (
        SELECT
            job_id, tenant, kind, status, first_step, start_time, end_time, evidence,
            kind IN ('stall', 'hang', 'restart') AS is_stop,
            toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time) AS length_ns
        FROM diagnoses
        WHERE has(from_the_root, kind::String)
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
            sumIf(length_ns, is_stop) / 1e9 AS gap_s,
            groupArrayIf((first_step, length_ns / 1e9), is_stop) AS stops,
            argMax(JSONExtractUInt(evidence, 'members_before')::UInt32, start_time) AS members_before,
            argMax(JSONExtractUInt(evidence, 'members_after')::UInt32, start_time) AS members_after
        FROM measured AS m
        GROUP BY job_id, kind
    )
SELECT
    f.job_id AS job_id, f.tenant AS tenant, f.cause AS cause, f.findings AS findings, f.open_findings AS open_findings,
    f.first_time AS first_time, f.last_time AS last_time,
    l.lost_s[indexOf(from_the_root, f.cause::String)]
        + arrayMax(arrayPushBack(arrayMap(stop -> if(stop.1 > l.last_step, stop.2, 0), f.stops), 0)) AS lost_s,
    lost_s * j.endpoints / 3600 AS gpu_hours_lost,
    f.interruptions AS interruptions, f.gap_s AS gap_s, f.members_before AS members_before, f.members_after AS members_after
FROM found AS f
INNER JOIN (SELECT job_id, endpoints FROM jobs) AS j ON f.job_id = j.job_id
LEFT JOIN job_losses AS l ON f.job_id = l.job_id;

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
    found AS
    (
        SELECT
            job_id,
            count() AS findings,
            countIf(status = 'open') AS open_findings,
            maxIf(severity::Int8, status = 'open') AS worst,
            groupArrayIf(
                (kind, first_step, (toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time)) / 1e9),
                kind IN ('stall', 'hang', 'restart')
            ) AS stops
        FROM diagnoses
        GROUP BY job_id
    )
SELECT
    j.tenant AS tenant,
    count() AS jobs,
    countIf(j.status = 'running') AS running_jobs,
    sumIf(j.endpoints, j.status = 'running') AS gpus,
    sum(j.steps) AS steps,
    sum(round(l.taken_s * 1e9)::Int128 * j.endpoints) / 1e9 / 3600 AS gpu_hours,
    sum(
        round(
            (
                arraySum(l.lost_s)
                + arraySum(
                    cause -> arrayMax(
                        arrayPushBack(arrayMap(stop -> if(stop.1 = cause AND stop.2 > l.last_step, stop.3, 0), f.stops), 0)
                    ),
                    ['stall', 'hang', 'restart']
                )
            ) * 1e9
        )::Int128 * j.endpoints
    ) / 1e9 / 3600 AS gpu_hours_lost,
    sum(f.findings) AS findings,
    sum(f.open_findings) AS open_findings,
    ['', 'info', 'warning', 'critical'][max(f.worst) + 1] AS worst_open
FROM (SELECT job_id, tenant, status, endpoints, steps FROM jobs) AS j
LEFT JOIN job_losses AS l ON j.job_id = l.job_id
LEFT JOIN found AS f ON j.job_id = f.job_id
GROUP BY j.tenant;

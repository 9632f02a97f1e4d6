-- A made-up training run of any length to try questions on, written straight into the result tables of an empty database:
-- two jobs of two tenants, with steps of 10 s. In the first, 20 of every 200 take 14 s, for which one GPU is to blame; in the
-- second, 10 of every 500 take 30 s, as the job stalls.
-- Parameters: gpus, of each job, a multiple of 8; steps, of each job, a multiple of 500.
INSERT INTO topology_loads (load, source, digest, endpoints) VALUES (1, 'topology.csv', '', 2 * {gpus:UInt32});

INSERT INTO topology_log (load, endpoint, server, gpu, rail, leaf, pod, tenant)
SELECT
    1,
    concat('10.', toString(job), '.', toString(intDiv(nth, 8)), '.', toString(nth % 8 + 1)),
    concat('host-', toString(job), '-', toString(intDiv(nth, 8))),
    nth % 8, toString(nth % 8), concat('leaf-', toString(nth % 8)), 'pod-0', ['research', 'product'][job]
FROM (SELECT number % {gpus:UInt32} AS nth, intDiv(number, {gpus:UInt32}) + 1 AS job FROM numbers(2 * {gpus:UInt32}));

INSERT INTO jobs_log (job_id, revision, tenant, status, first_seen, last_seen, endpoints, servers, dp_size, pp_size, steps, step_s_median)
SELECT
    ['job-one', 'job-two'][job], intDiv({steps:UInt32} - 1, 6) + 1, ['research', 'product'][job], 'running',
    '2026-03-02 00:00:00', toDateTime64('2026-03-02 00:00:00', 9, 'UTC') + intDiv(52 * {steps:UInt32}, 5),
    {gpus:UInt32}, intDiv({gpus:UInt32}, 8), intDiv({gpus:UInt32}, 4), 4, {steps:UInt32}, 10
FROM (SELECT arrayJoin([1, 2]) AS job);

INSERT INTO revisions (job_id, revision, from_step, window_start, cuts, next_step)
SELECT
    arrayJoin(['', 'job-one', 'job-two']), number + 1, 6 * number,
    toDateTime64('2026-03-02 00:00:00', 9, 'UTC') + 60 * number, 0, 6 * (number + 1)
FROM numbers(intDiv({steps:UInt32} - 1, 6) + 1);

INSERT INTO windows_log (window_start, window_end, revision, flows, first_flows, worked_at, attempts, status)
SELECT
    toDateTime64('2026-03-02 00:00:00', 9, 'UTC') + 60 * number AS start, start + 60, number + 1,
    {gpus:UInt32} * 200, {gpus:UInt32} * 200 - (number % 97 = 5), start + 75, 1 + (number % 97 = 5), 'worked'
FROM numbers(intDiv({steps:UInt32} - 1, 6) + 1);

INSERT INTO job_members_log (job_id, revision, endpoint, server, gpu, dp_group, pp_stage, first_seen, last_seen)
SELECT
    j.job_id, j.revision, t.endpoint, t.server, t.gpu, t.gpu % 4, t.gpu % 4, j.first_seen, j.last_seen
FROM topology_log AS t INNER JOIN jobs_log AS j ON t.tenant = j.tenant;

INSERT INTO groups_log (job_id, revision, group_id, kind, pp_stage, members)
SELECT job_id, revision, dp_group, 'DP', pp_stage, arraySort(groupArray(endpoint))
FROM job_members_log GROUP BY job_id, revision, dp_group, pp_stage;

INSERT INTO pairs_log (job_id, revision, src_addr, dst_addr, kind, confidence, flows, bytes, first_seen, last_seen)
SELECT
    g.job_id, g.revision, member, g.members[place % length(g.members) + 1], 'DP', 0.99,
    {steps:UInt32} * 2, {steps:UInt32} * 2000000000, '2026-03-02 00:00:00', '2026-03-02 00:00:00'
FROM groups_log AS g ARRAY JOIN members AS member, arrayEnumerate(members) AS place;

INSERT INTO steps_log
    (job_id, revision, tenant, step, start_time, end_time, duration_s, compute_s, pp_s, dp_s, slowest_endpoint, slowest_endpoints, complete)
SELECT
    ['job-one', 'job-two'][job], intDiv(step, 6) + 1, ['research', 'product'][job], step,
    toDateTime64('2026-03-02 00:00:00', 9, 'UTC') + 10 * step + if(
        job = 1,
        4 * (20 * intDiv(step, 200) + greatest(toInt64(step % 200) - 180, 0)),
        20 * (10 * intDiv(step, 500) + greatest(toInt64(step % 500) - 490, 0))) AS start,
    start + duration,
    multiIf(job = 1 AND step % 200 >= 180, 14, job = 2 AND step % 500 >= 490, 30, 10) AS duration,
    if(job = 1 AND step % 200 >= 180, 10.0, 6.0), 1.5, duration - (if(job = 1 AND step % 200 >= 180, 10.0, 6.0) + 1.5),
    concat('10.', toString(job), '.0.', toString(if(job = 1 AND step % 200 >= 180, 3, step % 8 + 1))) AS slowest, [slowest], 1
FROM (SELECT number % {steps:UInt32} AS step, intDiv(number, {steps:UInt32}) + 1 AS job FROM numbers(2 * {steps:UInt32}));

INSERT INTO gpu_steps_log
    (job_id, revision, tenant, endpoint, step, start_time, end_time, duration_s, compute_s, pp_s, dp_s, complete)
SELECT
    s.job_id, s.revision, s.tenant, concat('10.', if(s.job_id = 'job-one', '1', '2'), '.', toString(intDiv(nth, 8)), '.', toString(nth % 8 + 1)),
    s.step, s.start_time, s.end_time, s.duration_s,
    if(nth = 2, s.compute_s, 6.0) + (nth % 5) / 50 AS compute, s.pp_s, s.duration_s - compute - s.pp_s, 1
FROM steps_log AS s ARRAY JOIN range({gpus:UInt32}) AS nth;

INSERT INTO timeline_log (job_id, revision, endpoint, step, start_time, phases, lengths_ns)
SELECT
    job_id, revision, endpoint, step, start_time, ['compute', 'PP', 'compute', 'DP'],
    [toUInt64(compute_s * 5e8), toUInt64(pp_s * 1e9), toUInt64(compute_s * 5e8), toUInt64(dp_s * 1e9)]
FROM gpu_steps_log;

INSERT INTO diagnoses_log
    (job_id, revision, diagnosis_id, tenant, kind, subject_type, subject, first_step, last_step, start_time, end_time, status,
     severity, observed, expected, score, slowdown, summary, evidence, incident_id, confidence)
SELECT
    job_id, intDiv(max(step), 6) + 1, concat(job_id, '-', toString(min(step))), tenant,
    if(job_id = 'job-one', 'slow_gpu', 'stall'), if(job_id = 'job-one', 'endpoint', 'job'),
    if(job_id = 'job-one', any(slowest_endpoint), job_id), min(step), max(step), min(start_time), max(end_time),
    if(max(step) + 1 = {steps:UInt32}, 'open', 'closed'), if(job_id = 'job-one', 'critical', 'warning'),
    avg(duration_s), 10, 25, 1 - 10 / avg(duration_s),
    concat('Steps ', toString(min(step)), ' to ', toString(max(step)), ' took ', toString(round(avg(duration_s), 1)), ' s instead of 10 s'),
    '', concat('incident-', job_id, '-', toString(min(step))), if(job_id = 'job-one', 0.95, 0.8)
FROM steps_log
WHERE duration_s > 12
GROUP BY job_id, tenant, intDiv(step, if(job_id = 'job-one', 200, 500));

-- Each is an incident of its own: the whole, and the part of the tenant, which is the same.
INSERT INTO incidents_log
    (incident_id, revision, tenant, noted_time, kind, subject_type, subject, confidence, start_time, end_time, status, severity,
     jobs, tenants, gpus, lost_gpu_h, slowdown, summary, action, costs)
SELECT
    incident_id, revision, whose, start_time, kind, subject_type, subject, confidence, start_time, end_time, status, severity,
    [job_id], [tenant], {gpus:UInt32},
    slowdown * {gpus:UInt32} * (toUnixTimestamp(end_time) - toUnixTimestamp(start_time)) / 3600 AS lost_h, slowdown, summary,
    if(kind = 'stall', 'Look at what feeds the ranks with data', 'Check clocks, temperature and power of that GPU'),
    toJSONString([(job_id, {gpus:UInt32}, lost_h * 3600 / {gpus:UInt32})::Tuple(job_id String, gpus UInt32, lost_s Float64)])
FROM diagnoses_log
ARRAY JOIN ['', tenant] AS whose;

-- What replays of the steps say that each incident cost.
INSERT INTO what_if_log
    (job_id, revision, tenant, incident_id, `without`, step, last_step, actual_s, replayed_s, without_s, saved_gpu_h)
SELECT
    job_id, revision, tenant, incident_id, subject, first_step, last_step,
    toUnixTimestamp(end_time) - toUnixTimestamp(start_time) AS took_s, took_s, took_s * (1 - slowdown),
    took_s * slowdown * {gpus:UInt32} / 3600
FROM diagnoses_log;

INSERT INTO visibility_log (job_id, window_start, revision, tenant, endpoints, endpoints_seen, share, why)
SELECT j.job_id, w.window_start, j.revision, j.tenant, {gpus:UInt32}, {gpus:UInt32}, 1, ''
FROM (SELECT DISTINCT job_id, revision, tenant FROM jobs_log) AS j CROSS JOIN windows_log AS w;

INSERT INTO flow_pair_1m_log
    (minute, src_addr, dst_addr, sampler_address, flows, bytes, packets, first_start_ns, last_end_ns, last_received_at)
SELECT
    w.window_start, p.src_addr, p.dst_addr, t.leaf, 12, 12000000000, 3000000,
    toUnixTimestamp64Nano(w.window_start), toUnixTimestamp64Nano(w.window_end) - 1, w.window_end + 4
FROM windows_log AS w CROSS JOIN pairs_log AS p INNER JOIN topology_log AS t ON p.src_addr = t.endpoint;

INSERT INTO switch_1m_log
    (minute, sampler_address, flows, bytes, packets, first_start_ns, last_end_ns, last_received_at)
SELECT
    minute, sampler_address, sum(flows), sum(bytes), sum(packets), min(first_start_ns), max(last_end_ns), max(last_received_at)
FROM flow_pair_1m_log GROUP BY minute, sampler_address;

INSERT INTO flows_rejected_log (received_at, source, reason, record, position)
SELECT toDateTime64('2026-03-02 00:00:00', 3, 'UTC') + number, 'leaf-3.json', ['zero_bytes', 'bad_src_addr'][number % 3 = 0 ? 2 : 1], '', number
FROM numbers(intDiv({steps:UInt32}, 40));

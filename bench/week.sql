-- What a week of jobs leaves, written straight into the result tables of an empty database: a revision a window and job, what each
-- job was in the windows of its last day, its steps of 10 s, 20 incidents a job of which one is open, and a light of the service.
-- Parameters: jobs; windows, of a minute each.
INSERT INTO revisions (job_id, revision, from_step, window_start, cuts, next_step)
SELECT
    if(job = 0, '', concat('job-', toString(job))), number + 1, 6 * number,
    toDateTime64('2026-03-02 00:00:00', 9, 'UTC') + 60 * number, 0, 6 * (number + 1)
FROM numbers({windows:UInt32}) ARRAY JOIN range({jobs:UInt32} + 1) AS job;

INSERT INTO jobs_log
    (job_id, revision, tenant, status, first_seen, last_seen, endpoints, servers, dp_size, pp_size, steps, step_s_median)
SELECT
    concat('job-', toString(job + 1)), {windows:UInt32} - number, concat('tenant-', toString(job % 8)), 'running',
    '2026-03-02 00:00:00', toDateTime64('2026-03-02 00:00:00', 9, 'UTC') + 60 * ({windows:UInt32} - number), 64, 8, 16, 4,
    6 * ({windows:UInt32} - number), 10
FROM numbers(least({windows:UInt32}, 1440)) ARRAY JOIN range({jobs:UInt32}) AS job;

INSERT INTO steps_log (job_id, revision, tenant, step, start_time, end_time, duration_s, compute_s, pp_s, dp_s, complete)
SELECT
    concat('job-', toString(job + 1)), intDiv(number, 6) + 1, concat('tenant-', toString(job % 8)), number,
    toDateTime64('2026-03-02 00:00:00', 9, 'UTC') + 10 * number AS start, start + 10, 10, 6, 1.5, 2.5, 1
FROM numbers(6 * {windows:UInt32}) ARRAY JOIN range({jobs:UInt32}) AS job;

INSERT INTO incidents_log
    (incident_id, revision, tenant, noted_time, kind, subject_type, subject, confidence, start_time, end_time, status, severity,
     jobs, tenants, gpus, lost_gpu_h, slowdown, summary, action, costs)
SELECT
    concat('incident-', toString(number)), intDiv({windows:UInt32} * (number % 20 + 1), 20) - working AS written,
    whose, toDateTime64('2026-03-02 00:00:00', 9, 'UTC') + 60 * (written - 1) AS noted, 'slow_gpu', 'endpoint',
    concat('10.0.', toString(number), '.1'), 0.9, noted, noted + 600, if(number % 20 = 19, 'open', 'closed'),
    if(number % 3 = 0, 'critical', 'warning'), [concat('job-', toString(intDiv(number, 20) + 1))],
    [concat('tenant-', toString(intDiv(number, 20) % 8))], 64, 1.5, 0.2,
    'Steps took 14 s instead of 10 s; the others waited for this GPU.', 'Check that GPU and its host.',
    toJSONString([(concat('job-', toString(intDiv(number, 20) + 1)), 64, 84.375)::Tuple(job_id String, gpus UInt32, lost_s Float64)])
FROM numbers(20 * {jobs:UInt32})
ARRAY JOIN range(5) AS working
ARRAY JOIN ['', concat('tenant-', toString(intDiv(number, 20) % 8))] AS whose;

INSERT INTO health_log (process, name, state, what, mend, checked_at)
SELECT 'host:1', concat('light ', toString(number)), 'ok', 'all is well', '', now() FROM numbers(20);

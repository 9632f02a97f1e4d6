-- Purpose: makes the incidents that findings name, whole and the part of each tenant, of the last working there was. The finding
-- that lost most is the cause; findings without job are about places that the tenants' largest jobs share.
-- Parameters: none.
INSERT INTO incidents_log
    (incident_id, revision, tenant, noted_time, kind, subject_type, subject, may_also_be, confidence, start_time, end_time, status,
     severity, jobs, tenants, gpus, lost_gpu_h, slowdown, summary, action, costs)
WITH
    found AS
    (
        SELECT
            incident_id,
            argMax((kind, subject_type, subject, summary, slowdown, severity, status), (subject_type != 'job', slowdown)) AS cause,
            min(start_time) AS since,
            max(end_time) AS until,
            groupUniqArrayIf(job_id, job_id != '') AS on_jobs
        FROM diagnoses
        WHERE incident_id != ''
        GROUP BY incident_id
    ),
    concerned AS
    (
        SELECT f.*, j.job_id AS job_id, j.tenant AS owner, j.endpoints AS gpus
        FROM found AS f
        CROSS JOIN (SELECT job_id, tenant, endpoints, endpoints = max(endpoints) OVER (PARTITION BY tenant) AS is_largest FROM jobs) AS j
        WHERE if(empty(f.on_jobs), j.is_largest, has(f.on_jobs, j.job_id))
    ),
    parts AS
    (
        SELECT
            incident_id, whose,
            any(cause) AS cause, any(since) AS since, any(until) AS until, any(on_jobs) AS on_jobs,
            arraySort(groupArray(job_id)) AS jobs, arraySort(groupUniqArray(owner)) AS tenants, sum(gpus) AS gpus,
            groupArray((job_id, c.gpus::UInt32)) AS members
        FROM concerned AS c
        ARRAY JOIN ['', owner] AS whose
        GROUP BY incident_id, whose
    )
SELECT
    incident_id, (SELECT max(revision) FROM revisions WHERE job_id = ''), whose, since, cause.1, cause.2,
    if(whose != '' AND empty(on_jobs), 'the network between your servers', cause.3) AS subject,
    [], if(cause.2 = 'job', 0.7, 0.95), since, until, cause.7, cause.6, jobs, tenants, gpus,
    cause.5 * gpus * (toUnixTimestamp64Milli(until) - toUnixTimestamp64Milli(since)) / 3600000, cause.5,
    if(subject = cause.3, cause.4, concat('Something in ', subject, ' is slow, and ', toString(length(jobs)), ' jobs of yours wait for it')),
    multiIf(
        subject != cause.3, 'Ask the operator, who sees the same incident',
        cause.1 = 'hang', 'Look at the logs of its ranks, and start it again',
        cause.1 = 'restart', 'Look at the logs for why it ended',
        cause.1 = 'telemetry', 'Look at its export queue',
        cause.2 IN ('switch', 'link'), 'Look at its ports, cables and counters',
        'Check it, or take it out of service'
    ),
    toJSONString(
        arrayMap(
            one -> (one.1, one.2, cause.5 * (toUnixTimestamp64Milli(until) - toUnixTimestamp64Milli(since)) / 1000)::Tuple(job_id String, gpus UInt32, lost_s Float64),
            members
        )
    )
FROM parts;

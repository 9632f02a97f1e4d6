-- Where GPU time went is what jobs had, less what their incidents cost: no step has to be read, and all sums are those of incidents.

CREATE OR REPLACE VIEW gpu_time
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    cause LowCardinality(String) COMMENT 'Kind of the incident that it was lost to; empty for what was not lost',
    incident_id String COMMENT 'That incident; empty for what was not lost',
    start_time DateTime64(9) COMMENT 'When that time begins in the span, UTC',
    end_time DateTime64(9) COMMENT 'When it ends in the span, UTC',
    gpu_s Float64 COMMENT 'GPU time, GPU-seconds: of a job all but what was lost, of an incident what it cost',
    lost_gpu_s Float64 COMMENT 'What of that was lost, GPU-seconds'
)
COMMENT 'GPU time of jobs and what of it was lost: gpu_time(from_time = ..., to_time = ...), one row a job and one for each incident that cost it some; the cost of an incident is spread evenly over its time'
AS
WITH
    toUnixTimestamp(toDateTime({from_time:DateTime('UTC')}, 'UTC'))::Int64 * 1000000000 AS since_ns,
    toUnixTimestamp(toDateTime({to_time:DateTime('UTC')}, 'UTC'))::Int64 * 1000000000 AS until_ns,
    lost AS
    (
        SELECT
            job,
            max(end_ns) AS last_ns,
            sum(round(cost_gpu_s * 1e9)::Int128) / 1e9 AS lost_gpu_s,
            -- In one order, as sums depend on it in their last digit.
            arraySort(groupArray((kind::String, incident_id, begin_ns, stop_ns, cost_gpu_s))) AS parts
        FROM
        (
            SELECT
                job, kind, incident_id,
                toUnixTimestamp64Nano(start_time) AS start_ns,
                greatest(toUnixTimestamp64Nano(end_time), start_ns + 1) AS end_ns,
                greatest(start_ns, since_ns) AS begin_ns,
                least(end_ns, until_ns) AS stop_ns,
                part_s * part_gpus * (stop_ns - begin_ns) / (end_ns - start_ns) AS cost_gpu_s
            FROM (SELECT kind, incident_id, start_time, end_time, jobs, jobs_lost_s, jobs_gpus FROM incidents)
            ARRAY JOIN jobs AS job, jobs_lost_s AS part_s, jobs_gpus AS part_gpus
            WHERE part_s > 0 AND stop_ns > begin_ns
        )
        GROUP BY job
    ),
    held AS
    (
        SELECT
            j.job_id AS job_id, j.tenant AS tenant, l.parts AS lost,
            greatest(toUnixTimestamp64Nano(j.first_seen), since_ns) AS begin_ns,
            -- A job that stands still has no flows, and is last seen before.
            least(greatest(toUnixTimestamp64Nano(j.last_seen), l.last_ns), until_ns) AS stop_ns,
            greatest((stop_ns - begin_ns) / 1e9 * j.endpoints - l.lost_gpu_s, 0) AS healthy_gpu_s
        FROM (SELECT job_id, tenant, first_seen, last_seen, endpoints FROM jobs) AS j
        LEFT JOIN lost AS l ON j.job_id = l.job
        WHERE stop_ns >= begin_ns
    )
SELECT
    job_id, tenant, part.1 AS cause, part.2 AS incident_id, fromUnixTimestamp64Nano(part.3, 'UTC') AS start_time,
    fromUnixTimestamp64Nano(part.4, 'UTC') AS end_time, part.5 AS gpu_s, if(cause = '', 0, gpu_s) AS lost_gpu_s
FROM held
ARRAY JOIN arrayPushFront(lost, ('', '', begin_ns, stop_ns, healthy_gpu_s)) AS part;

-- The public names of steps and phases: of each revision the steps that no later one replaced.

CREATE VIEW IF NOT EXISTS steps
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen',
    start_time DateTime64(9) COMMENT 'End of the step before it; of the first its earliest start over endpoints, UTC',
    end_time DateTime64(9) COMMENT 'Latest end over its endpoints, UTC',
    duration_s Float64 COMMENT 'From start to end, seconds',
    compute_s Float64 COMMENT 'Time without network phases, mean over endpoints, seconds',
    pp_s Float64 COMMENT 'Time in pipeline phases, mean over endpoints, seconds',
    dp_s Float64 COMMENT 'Time in data-parallel phases, mean over endpoints, seconds',
    slowest_endpoint String COMMENT 'Address of the endpoint that was ready latest, against what is usual for it',
    complete UInt8 COMMENT '1 where the whole step was seen, 0 where its beginning was not'
)
COMMENT 'Training steps, one row a job and step'
AS
SELECT
    l.job_id, l.tenant, l.step, l.start_time, l.end_time,
    l.duration_s, l.compute_s, l.pp_s, l.dp_s, l.slowest_endpoint, l.complete
FROM steps_log AS l
ASOF LEFT JOIN revision_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.step < c.until_step) AND l.revision IN (SELECT revision FROM published);

CREATE VIEW IF NOT EXISTS gpu_steps
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    endpoint String COMMENT 'Address of the NIC',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen of the job',
    start_time DateTime64(9) COMMENT 'End of the step before it on this endpoint, UTC',
    end_time DateTime64(9) COMMENT 'End of the last flow of its closing burst, UTC',
    duration_s Float64 COMMENT 'From start to end, seconds',
    compute_s Float64 COMMENT 'Time without network phases, seconds',
    pp_s Float64 COMMENT 'Time in pipeline phases, seconds',
    dp_s Float64 COMMENT 'Time in data-parallel phases, seconds',
    complete UInt8 COMMENT '1 where the whole step was seen, 0 where its beginning was not'
)
COMMENT 'Training steps of endpoints, one row an endpoint and step'
AS
SELECT
    l.job_id, l.tenant, l.endpoint, l.step, l.start_time, l.end_time,
    l.duration_s, l.compute_s, l.pp_s, l.dp_s, l.complete
FROM gpu_steps_log AS l
ASOF LEFT JOIN revision_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.step < c.until_step) AND l.revision IN (SELECT revision FROM published);

CREATE VIEW IF NOT EXISTS timeline
(
    job_id String COMMENT 'The job',
    endpoint String COMMENT 'Address of the NIC',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen of the job',
    phase Enum8('compute' = 1, 'PP' = 2, 'DP' = 3, 'EP' = 4, 'CP' = 5, 'TP' = 6) COMMENT 'What the endpoint was doing',
    start_time DateTime64(9) COMMENT 'Start of the phase, the end of the one before it, UTC',
    end_time DateTime64(9) COMMENT 'End of the phase, UTC'
)
COMMENT 'Phases of steps, one row an endpoint and phase'
AS
SELECT
    job_id,
    endpoint,
    step,
    phase,
    fromUnixTimestamp64Nano(toInt64(begin_ns + until_ns - length_ns)) AS start_time,
    fromUnixTimestamp64Nano(toInt64(begin_ns + until_ns)) AS end_time
FROM
(
    SELECT
        l.job_id AS job_id,
        l.endpoint AS endpoint,
        l.step AS step,
        toUnixTimestamp64Nano(l.start_time) AS begin_ns,
        l.phases AS phases,
        l.lengths_ns AS lengths_ns
    FROM timeline_log AS l
    ASOF LEFT JOIN revision_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
    WHERE (c.revision = 0 OR l.step < c.until_step) AND l.revision IN (SELECT revision FROM published)
)
ARRAY JOIN phases AS phase, lengths_ns AS length_ns, arrayCumSum(lengths_ns) AS until_ns;

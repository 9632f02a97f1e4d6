-- What a job's time went to, step by step, in the form in which charts stack it.

CREATE VIEW IF NOT EXISTS job_timeline
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    step UInt64 COMMENT 'Number of the step, from 0 at the first seen',
    start_time DateTime64(9) COMMENT 'Start of the step, UTC',
    end_time DateTime64(9) COMMENT 'End of the step, UTC',
    phase LowCardinality(String) COMMENT 'compute, PP or DP, as in timeline; other is what is none of them',
    phase_s Float64 COMMENT 'Time in that phase, mean over its endpoints, seconds',
    share Float64 COMMENT 'Part of the step, 0 to 1'
)
COMMENT 'How the time of each step divides into phases, one row a job, step and phase'
AS
SELECT
    job_id,
    tenant,
    step,
    start_time,
    end_time,
    part.1 AS phase,
    part.2 AS phase_s,
    if(duration_s > 0, part.2 / duration_s, 0) AS share
FROM steps
ARRAY JOIN
    [
        ('compute', compute_s),
        ('PP', pp_s),
        ('DP', dp_s),
        ('other', greatest(duration_s - compute_s - pp_s - dp_s, 0))
    ] AS part;

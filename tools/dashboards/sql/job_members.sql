-- Purpose: gives one job its endpoints: a stage is a run of servers, a data-parallel group the GPUs of one index in it.
-- Parameters: job_id, endpoints, first_server, pp_size; as of job_steps.
INSERT INTO job_members_log (job_id, revision, endpoint, server, gpu, dp_group, pp_stage, first_seen, last_seen)
WITH (SELECT (max(revision), min(start_time), max(end_time)) FROM steps_log WHERE job_id = {job_id:String}) AS life
SELECT
    {job_id:String},
    life.1,
    concat('10.', toString(100 + gpu), '.', toString(intDiv(server, 250)), '.', toString(server % 250 + 1)),
    concat('host-', leftPad(toString(server), 3, '0')),
    gpu,
    stage * 8 + gpu,
    stage,
    life.2,
    life.3
FROM
(
    SELECT
        {first_server:UInt32} + intDiv(number, 8) AS server,
        number % 8 AS gpu,
        intDiv(intDiv(number, 8) * {pp_size:UInt32}, intDiv({endpoints:UInt32}, 8)) AS stage
    FROM numbers({endpoints:UInt32})
);

-- Purpose: count what the page at / has on top where its list of jobs is empty.
-- Parameters: none.
-- Result: one row: running, stalled jobs, counts; gpus_in_jobs that have not ended, count.
SELECT countIf(status = 'running') AS running, countIf(status = 'stalled') AS stalled, sumIf(endpoints, status != 'ended') AS gpus_in_jobs
FROM jobs;

-- What the records show of each job, so that "nothing is wrong" and "not seen" are two answers. A working of a window replaces
-- what was found in it and in those after it, as it does findings about no single job.

CREATE TABLE IF NOT EXISTS visibility_log
(
    job_id String COMMENT 'The job',
    window_start DateTime64(9) COMMENT 'Start of the window, UTC',
    revision UInt64 COMMENT 'Number of the working that wrote the row',
    tenant String COMMENT 'Tenant of the job',
    endpoints UInt32 COMMENT 'Endpoints that the job runs on, count',
    endpoints_seen UInt32 COMMENT 'Those that a flow of the window begins or ends at, count',
    share Float64 COMMENT 'Share of their time that can be seen, 0 to 1',
    why String COMMENT 'Why not all is seen, in words; empty where all is',
    written_at DateTime('UTC') DEFAULT now() COMMENT 'When the row was written, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(written_at)
ORDER BY (job_id, window_start, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'What is seen of jobs, one row a job, window and working; read it as visibility';

CREATE VIEW IF NOT EXISTS visibility
(
    job_id String COMMENT 'The job',
    tenant String COMMENT 'Tenant of the job',
    window_start DateTime64(9) COMMENT 'Start of the window, UTC; a filter on it reads only what it must',
    endpoints UInt32 COMMENT 'Endpoints that the job runs on, count',
    endpoints_seen UInt32 COMMENT 'Those that a flow of the window begins or ends at, count',
    share Float64 COMMENT 'Share of their time that can be seen, 0 to 1',
    why String COMMENT 'Why not all is seen, in words; empty where all is'
)
COMMENT 'What is seen of each job that has not ended, one row a job and window'
AS
SELECT l.job_id, l.tenant, l.window_start, l.endpoints, l.endpoints_seen, l.share, l.why
FROM (SELECT *, '' AS no_job FROM visibility_log) AS l
ASOF LEFT JOIN {revision_cuts} AS c ON l.no_job = c.job_id AND l.revision < c.revision
WHERE (c.revision = 0 OR l.window_start < c.until_time) AND l.revision IN (SELECT revision FROM {published});

CREATE VIEW IF NOT EXISTS dead_visibility
(
    window_start DateTime64(9) COMMENT 'Start of a window, UTC',
    revision UInt64 COMMENT 'Number of a working of it that was replaced'
)
COMMENT 'What was seen of jobs and nobody will read again'
AS
SELECT DISTINCT l.window_start AS window_start, l.revision AS revision
FROM (SELECT window_start, revision, '' AS no_job FROM visibility_log) AS l
ASOF INNER JOIN final_cuts AS c ON l.no_job = c.job_id AND l.revision < c.revision
WHERE l.window_start >= c.until_time;

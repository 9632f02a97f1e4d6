-- Which rows of the result tables count. Working a window writes rows under a new revision, and then publishes the revision.

CREATE TABLE IF NOT EXISTS revisions
(
    job_id String COMMENT 'The job; empty for findings about no single job, of which each working has one row',
    revision UInt64 COMMENT 'Number of the working that wrote the rows',
    from_step UInt64 COMMENT 'First step that it replaces, with all later ones; 0 and no rows where the job is withdrawn',
    from_time DateTime64(9) COMMENT 'Findings that start at or after this time are replaced, UTC',
    window_start DateTime64(9) COMMENT 'Start of the window that was worked, UTC',
    published_at DateTime64(3) DEFAULT now64(3) COMMENT 'When readers could see it, UTC',
    cuts UInt8 DEFAULT 1 COMMENT '0 where nothing that was published before reaches what it replaces, as where a job just goes on',
    next_step UInt64 COMMENT 'All steps under this and earlier revisions of the job have lower numbers',
    last_time DateTime64(9) COMMENT 'No finding under this and earlier revisions of the job starts later, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(published_at)
ORDER BY (job_id, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Published revisions; rows of the result tables whose revision is not here are seen by nobody';

-- A row counts where its revision is published and no later revision of its job reaches it. Only those that cut anything need
-- be asked, which are few: the next one in the order of revisions knows the least of its own and all later ones' bounds.
CREATE VIEW IF NOT EXISTS revision_cuts
(
    job_id String COMMENT 'The job; empty for findings about no single job',
    revision UInt64 COMMENT 'Number of a working that replaces what was published before',
    until_step UInt64 COMMENT 'Steps of earlier revisions count if they come before this one',
    until_time DateTime64(9) COMMENT 'Findings of earlier revisions count if they start before, UTC'
)
COMMENT 'For each revision that replaces something, what is left of the earlier ones: ASOF JOIN to it on revision < revision'
AS
SELECT job_id, revision, min(from_step) OVER later AS until_step, min(from_time) OVER later AS until_time
FROM revisions
WHERE cuts
WINDOW later AS (PARTITION BY job_id ORDER BY revision DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW);

CREATE VIEW IF NOT EXISTS published
(
    revision UInt64 COMMENT 'Number of a working',
    window_start DateTime64(9) COMMENT 'Start of the window that was worked, UTC'
)
COMMENT 'Workings whose results are published, all at once, one row each'
AS
SELECT revision, window_start
FROM revisions
WHERE job_id = '';

-- Which rows of the result tables count. Working a window writes rows under a new revision, and then publishes the revision.

CREATE TABLE IF NOT EXISTS revisions
(
    job_id String COMMENT 'The job; empty for findings about no single job',
    revision UInt64 COMMENT 'Number of the working that wrote the rows',
    from_step UInt64 COMMENT 'First step that it replaces, with all later ones; 0 and no rows where the job is withdrawn',
    from_time DateTime64(9) COMMENT 'Findings that start at or after this time are replaced, UTC',
    window_start DateTime64(9) COMMENT 'Start of the window that was worked, UTC',
    published_at DateTime64(3) DEFAULT now64(3) COMMENT 'When readers could see it, UTC'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(published_at)
ORDER BY (job_id, revision)
SETTINGS non_replicated_deduplication_window = 100
COMMENT 'Published revisions; rows of the result tables whose revision is not here are seen by nobody';

CREATE VIEW IF NOT EXISTS revision_live
(
    job_id String COMMENT 'The job; empty for findings about no single job',
    revision UInt64 COMMENT 'Number of the working that wrote the rows',
    from_step UInt64 COMMENT 'First step of this revision',
    until_step UInt64 COMMENT 'First step that a later revision replaces; the largest number where none does',
    from_time DateTime64(9) COMMENT 'Findings from this time on are of this revision, UTC',
    until_time DateTime64(9) COMMENT 'Findings from this time on are of a later revision, UTC; the year 2262 where there is none',
    is_latest UInt8 COMMENT '1 where no later revision of the job is published, else 0'
)
COMMENT 'For each published revision the range of steps and of time for which it is the one that counts'
AS
-- Newest first: a frame that only grows is summed up once, one that shrinks is summed up anew at every row.
SELECT
    job_id,
    revision,
    from_step,
    ifNull(minOrNull(from_step) OVER later, 18446744073709551615) AS until_step,
    from_time,
    ifNull(minOrNull(from_time) OVER later, fromUnixTimestamp64Nano(9223372036854775807)) AS until_time,
    (count() OVER later) = 0 AS is_latest
FROM revisions
WINDOW later AS (PARTITION BY job_id ORDER BY revision DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING);

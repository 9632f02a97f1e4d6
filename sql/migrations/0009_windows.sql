-- The ledger of windows: which were analysed, with which flows and under which revision, who analyses one now, and which
-- revisions are published. Analysing a window writes rows under a new revision, and then publishes the revision.

CREATE TABLE IF NOT EXISTS revision_claims
(
    revision UInt64 COMMENT 'Number of one working of one window, larger than any before, counts from 1',
    window_start DateTime64(9) COMMENT 'Start of the window, UTC',
    window_end DateTime64(9) COMMENT 'End of the window, exclusive, UTC',
    claimed_at DateTime64(3) DEFAULT now64(3) COMMENT 'When the working began, UTC',
    worker String COMMENT 'Who works it: host, process and number of the analysis'
)
ENGINE = MergeTree
ORDER BY revision
COMMENT 'Every working of a window that was begun, finished or not; a number is never used twice';

CREATE TABLE IF NOT EXISTS claim_beats
(
    revision UInt64 COMMENT 'Number of the working',
    worker String COMMENT 'Who works it, as in revision_claims',
    beat_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When the worker was alive, or had come to an end, UTC',
    ended UInt8 COMMENT '1 where the working has come to an end, whether or not the window is worked'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(beat_at)
ORDER BY (revision, worker)
COMMENT 'Signs of life of those who work windows; a claim without one for a while is void';

CREATE TABLE IF NOT EXISTS windows_log
(
    window_start DateTime64(9) COMMENT 'Start of the window, the first time at which its flows may end, UTC',
    window_end DateTime64(9) COMMENT 'End of the window, exclusive, UTC',
    revision UInt64 COMMENT 'Number of this working of the window',
    flows UInt64 COMMENT 'Flow records that had arrived when it was worked, as delivered, count',
    first_flows UInt64 COMMENT 'Flow records that had arrived when it was worked for the first time, count',
    fingerprint UInt64 COMMENT 'Sum of the hashes of those records, wrapping; changes when one more arrives',
    inputs UInt64 COMMENT 'Digest of all else the results depend on: topology and parameters',
    worked_at DateTime64(3) DEFAULT now64(3) COMMENT 'When the working ended, UTC',
    attempts UInt32 COMMENT 'How many workings were begun so far, count',
    status Enum8('worked' = 1, 'failed' = 2, 'partial' = 3) COMMENT 'How the working ended; partial: published without a job that failed',
    error String COMMENT 'Why it, or a job of it, failed, one line; empty where none did',
    version LowCardinality(String) COMMENT 'Version of prism-ch that worked it; the next one tries a partial window again',
    seconds Map(LowCardinality(String), Float64) COMMENT 'How long each part of the working took, seconds',
    written Map(LowCardinality(String), UInt64) COMMENT 'How many rows it wrote into each table of results, count'
)
ENGINE = ReplacingMergeTree(revision)
PARTITION BY toYYYYMM(window_start)
ORDER BY (window_start, window_end)
COMMENT 'The last working of each window; written after the results it covers';

-- Windows of another length than the newest one's are superseded, and so are those worked before the length last changed.
CREATE VIEW IF NOT EXISTS windows
(
    window_start DateTime64(9) COMMENT 'Start of the window, the first time at which its flows may end, UTC',
    window_end DateTime64(9) COMMENT 'End of the window, exclusive, UTC',
    flows UInt64 COMMENT 'Flow records that had arrived when it was last worked, as delivered, count',
    late_flows UInt64 COMMENT 'Those among them that arrived after it was first worked, count',
    worked_at DateTime64(3) COMMENT 'When it was last worked, UTC',
    attempts UInt32 COMMENT 'How many times its working was begun, count',
    status Enum8('worked' = 1, 'failed' = 2, 'partial' = 3) COMMENT 'How the last working ended; partial: published without a job that failed',
    error String COMMENT 'Why it, or a job of it, failed, one line; empty where none did'
)
COMMENT 'Windows of analysis, one row each'
AS
WITH
    (SELECT argMax(window_end - window_start, revision) FROM windows_log) AS length,
    (SELECT max(revision) FROM windows_log WHERE window_end - window_start != length) AS last_other
SELECT
    window_start,
    window_end,
    flows,
    flows - first_flows AS late_flows,
    worked_at,
    attempts,
    status,
    error
FROM windows_log FINAL
WHERE window_end - window_start = length AND revision > last_other;

CREATE VIEW IF NOT EXISTS stage_seconds
(
    window_start DateTime64(9, 'UTC') COMMENT 'Start of the window, UTC',
    worked_at DateTime64(3, 'UTC') COMMENT 'When it was last worked, UTC',
    stage String COMMENT 'Part of the working: read, examine, write',
    seconds Float64 COMMENT 'How long it took, seconds'
)
COMMENT 'How long the parts of each window''s last working took, one row a window and part'
AS
SELECT window_start, worked_at, stage, seconds
FROM windows_log FINAL
ARRAY JOIN mapKeys(seconds) AS stage, mapValues(seconds) AS seconds;

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
-- Other views have the SELECT of this one and the next where their names stand in braces, which are planned in less time.
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

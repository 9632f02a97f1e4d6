-- What can be pruned: rows that no reader sees and that no working will need again. `prism-ch serve` deletes them.

-- Windows that start up to here have been final for a day, so that nobody is at one of them any more. Whatever is worked from
-- now on begins after it, and goes on from what was known there.
CREATE VIEW IF NOT EXISTS prune_horizon
(
    pruned_until DateTime64(9) COMMENT 'Windows that start by then have been final for a day, UTC; 1970 where none has'
)
COMMENT 'Up to where results are final and their history can go, one row'
AS
WITH (SELECT gone_before - INTERVAL 1 DAY FROM raw_horizon) AS long_gone
SELECT toDateTime64(max(second), 9) AS pruned_until
FROM (SELECT second FROM arrivals_log WHERE first_written_at < long_gone ORDER BY second DESC LIMIT 1);

CREATE VIEW IF NOT EXISTS final_revisions
(
    job_id String COMMENT 'The job; empty for findings about no single job',
    revision UInt64 COMMENT 'Number of the latest working of a window that is final'
)
COMMENT 'From which revision on each job is still needed, one row each'
AS
SELECT job_id, max(r.revision) AS revision
FROM revisions AS r
WHERE window_start <= (SELECT pruned_until FROM prune_horizon)
GROUP BY job_id;

CREATE VIEW IF NOT EXISTS final_cuts
(
    job_id String COMMENT 'The job; empty for findings about no single job',
    revision UInt64 COMMENT 'Number of a working of a final window that replaces what was published before',
    until_step UInt64 COMMENT 'Steps of earlier revisions never count again from this one on',
    until_time DateTime64(9) COMMENT 'Findings of earlier revisions never count again from this time on, UTC'
)
COMMENT 'What is left for good of earlier revisions, as revision_cuts, of final windows'
AS
SELECT job_id, revision, min(from_step) OVER later AS until_step, min(from_time) OVER later AS until_time
FROM revisions
WHERE cuts AND window_start <= (SELECT pruned_until FROM prune_horizon)
WINDOW later AS (PARTITION BY job_id ORDER BY revision DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW);

CREATE VIEW IF NOT EXISTS dead_states
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of a working'
)
COMMENT 'Revisions whose jobs, members, pairs and groups nobody will read again'
AS
SELECT l.job_id AS job_id, l.revision AS revision
FROM jobs_log AS l
INNER JOIN final_revisions AS f ON l.job_id = f.job_id
WHERE l.revision < f.revision;

CREATE VIEW IF NOT EXISTS dead_steps
(
    job_id String COMMENT 'The job',
    step UInt64 COMMENT 'Number of a step',
    revision UInt64 COMMENT 'Number of a working that wrote it and was replaced'
)
COMMENT 'Steps that nobody will read again as that revision has them'
AS
SELECT l.job_id AS job_id, l.step AS step, l.revision AS revision
FROM steps_log AS l
ASOF INNER JOIN final_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE l.step >= c.until_step AND l.job_id IN (SELECT job_id FROM final_cuts);

CREATE VIEW IF NOT EXISTS dead_findings
(
    job_id String COMMENT 'The job; empty where the finding concerns a switch or an exporter',
    diagnosis_id String COMMENT 'Identity of a finding',
    revision UInt64 COMMENT 'Number of a working that wrote it and was replaced'
)
COMMENT 'Findings that nobody will read again as that revision has them'
AS
WITH
    judged AS
    (
        SELECT
            l.job_id AS job_id, l.diagnosis_id AS diagnosis_id, l.revision AS revision, l.start_time AS start_time,
            c.revision > 0 AND l.start_time >= c.until_time AS is_cut
        FROM diagnoses_log AS l
        ASOF LEFT JOIN final_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
    ),
    -- What says the same finding anew, and is itself never cut without it.
    newest AS
    (
        SELECT job_id, diagnosis_id, max(j.revision) AS revision, argMax(j.start_time, j.revision) AS start_time
        FROM judged AS j
        WHERE NOT is_cut
            AND j.revision IN (SELECT revision FROM published WHERE window_start <= (SELECT pruned_until FROM prune_horizon))
        GROUP BY job_id, diagnosis_id
    )
SELECT j.job_id AS job_id, j.diagnosis_id AS diagnosis_id, j.revision AS revision
FROM judged AS j
LEFT JOIN newest AS n ON j.job_id = n.job_id AND j.diagnosis_id = n.diagnosis_id
WHERE j.is_cut OR (j.revision < n.revision AND j.start_time >= n.start_time);

CREATE VIEW IF NOT EXISTS dead_exporters
(
    window_start DateTime64(9) COMMENT 'Start of a window, UTC',
    revision UInt64 COMMENT 'Number of a working of it that was replaced'
)
COMMENT 'What was found of exporters and nobody will read again'
AS
SELECT DISTINCT l.window_start AS window_start, l.revision AS revision
FROM (SELECT window_start, revision, '' AS job_id FROM exporters_log) AS l
ASOF INNER JOIN final_cuts AS c ON l.job_id = c.job_id AND l.revision < c.revision
WHERE l.window_start >= c.until_time;

-- A row that is read is known to be published by the row of its working, whose job_id is empty. Of a job's own rows the latest
-- says how things stand, and those that cut hide what is not deleted yet.
CREATE VIEW IF NOT EXISTS dead_revisions
(
    job_id String COMMENT 'The job',
    revision UInt64 COMMENT 'Number of a working'
)
COMMENT 'Rows of revisions that nobody will need again, once the other dead rows are deleted'
AS
SELECT r.job_id AS job_id, r.revision AS revision
FROM revisions AS r
INNER JOIN final_revisions AS f ON r.job_id = f.job_id
WHERE r.job_id != ''
    AND r.revision < f.revision
    AND (NOT r.cuts OR r.window_start <= (SELECT pruned_until FROM prune_horizon));

CREATE VIEW IF NOT EXISTS unpublished
(
    revision UInt64 COMMENT 'Number of a working'
)
COMMENT 'Workings that were begun more than a day ago and never published: their rows, if any, are seen by nobody'
AS
SELECT revision
FROM revision_claims
WHERE claimed_at < now64(3) - INTERVAL 1 DAY AND revision NOT IN (SELECT revision FROM published);

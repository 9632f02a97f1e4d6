-- How long rows are kept, which windows are final because their flows may be gone, and which rows can be pruned since no
-- reader sees them and no later window needs them. `prism-ch serve` deletes those.

CREATE TABLE IF NOT EXISTS retention_log
(
    class LowCardinality(String) COMMENT 'Class of tables, as in sql/retention.toml',
    kept_days UInt32 COMMENT 'Days for which their rows are kept',
    is_default UInt8 COMMENT '1 where nobody has asked for it, so that another version may choose otherwise',
    changed_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'From when this holds, UTC'
)
ENGINE = MergeTree
ORDER BY (class, changed_at)
COMMENT 'How long classes of tables were kept at any time; `prism-ch retention` writes it, together with the tables'' TTL';

CREATE VIEW IF NOT EXISTS retention
(
    class String COMMENT 'Class of tables, as in sql/retention.toml',
    kept_days UInt32 COMMENT 'Days for which their rows are kept, from when they were written',
    is_default UInt8 COMMENT '1 where nobody has asked for it',
    changed_at DateTime64(3, 'UTC') COMMENT 'From when this holds, UTC'
)
COMMENT 'How long classes of tables are kept, one row each'
AS
SELECT class, kept_days, is_default, changed_at
FROM retention_log
ORDER BY changed_at DESC
LIMIT 1 BY class;

-- At any time flows were safe that were written within the days which raw flows were then kept. What was not safe once may
-- be gone, even if they are kept longer now. Results rest on those of all earlier windows, which they would have to replace:
-- so with the newest window that holds such flows all before it are final.
CREATE VIEW IF NOT EXISTS raw_horizon
(
    gone_before DateTime('UTC') COMMENT 'Raw flows that were written before may be gone, UTC; 1970 where none can be',
    final_until DateTime('UTC') COMMENT 'End of the newest such flow, to the second, UTC: windows that start by then are final; 1970 where none is'
)
COMMENT 'Up to when raw flows may be gone, one row'
AS
WITH
    (
        SELECT max(toDateTime(until, 'UTC') - toIntervalDay(kept_days))
        FROM
        (
            SELECT
                kept_days,
                leadInFrame(changed_at, 1, now64(3)) OVER
                    (ORDER BY changed_at ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS until
            FROM retention_log
            WHERE class = 'raw'
        )
    ) AS gone,
    -- From the newest second backwards: at most what is still kept is read.
    (SELECT second FROM arrivals_log WHERE first_written_at < gone ORDER BY second DESC LIMIT 1) AS final
SELECT gone AS gone_before, ifNull(final, toDateTime(0, 'UTC')) AS final_until;

CREATE VIEW IF NOT EXISTS windows_left
(
    window_start DateTime64(9) COMMENT 'Start of the window, UTC',
    window_end DateTime64(9) COMMENT 'End of the window, exclusive, UTC',
    flows UInt64 COMMENT 'Flow records that its results rest on, as delivered, count; 0 where it was never worked',
    late_flows UInt64 COMMENT 'Flow records that have arrived since, as delivered, count: they are kept as others are',
    reason String COMMENT 'Why it is not worked again'
)
COMMENT 'Windows to which records came when they were final, one row each: they are left as they are'
AS
WITH
    (SELECT toUnixTimestamp(final_until)::Int64 FROM raw_horizon) AS final_until_s,
    (
        SELECT if(count() = 0, 60000000000, argMax(toUnixTimestamp64Nano(window_end) - toUnixTimestamp64Nano(window_start), revision))
        FROM windows_log
    ) AS length
SELECT
    fromUnixTimestamp64Nano(assumeNotNull(a.start_ns)) AS window_start,
    fromUnixTimestamp64Nano(assumeNotNull(a.start_ns + length)) AS window_end,
    l.flows AS flows,
    a.records - l.flows AS late_flows,
    'raw flows that it would rest on may be gone; see prism-ch retention' AS reason
FROM
(
    SELECT intDiv(toUnixTimestamp(second)::Int64 * 1000000000, length) * length AS start_ns, sum(c.records) AS records
    FROM arrivals_log AS c
    WHERE toUnixTimestamp(second) < final_until_s + intDiv(length, 1000000000)
    GROUP BY start_ns
) AS a
LEFT JOIN
(
    SELECT toUnixTimestamp64Nano(window_start) AS start_ns, w.flows AS flows
    FROM windows_log AS w FINAL
    WHERE toUnixTimestamp64Nano(window_end) - start_ns = length AND status != 'failed'
) AS l USING (start_ns)
WHERE a.start_ns <= final_until_s * 1000000000 AND a.records != l.flows;

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
    -- The newest row of each finding that is never cut itself.
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

-- A result row counts as published by the row of its revision without job_id, which stays. Of a job's own rows the latest is
-- needed, and so are those that cut, until what they hide is deleted.
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

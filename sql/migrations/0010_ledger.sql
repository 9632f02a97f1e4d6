-- The ledger of windows: what has been worked, with which flows, and under which number.

CREATE TABLE IF NOT EXISTS revision_claims
(
    revision UInt64 COMMENT 'Number of one working of one window, larger than any before, counts from 1',
    window_start DateTime64(9) COMMENT 'Start of the window, UTC',
    window_end DateTime64(9) COMMENT 'End of the window, exclusive, UTC',
    claimed_at DateTime64(3) DEFAULT now64(3) COMMENT 'When the working began, UTC'
)
ENGINE = MergeTree
ORDER BY revision
COMMENT 'Every working of a window that was begun, finished or not; a number is never used twice';

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
    status Enum8('worked' = 1, 'failed' = 2) COMMENT 'How the working ended',
    error String COMMENT 'Why it failed, one line; empty where it did not'
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
    status Enum8('worked' = 1, 'failed' = 2) COMMENT 'How the last working ended',
    error String COMMENT 'Why it failed, one line; empty where it did not'
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

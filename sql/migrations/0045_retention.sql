-- How long rows are kept, and which windows are final because their flows may be gone.

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
    WHERE toUnixTimestamp64Nano(window_end) - start_ns = length AND status = 'worked'
) AS l USING (start_ns)
WHERE a.start_ns <= final_until_s * 1000000000 AND a.records != l.flows;

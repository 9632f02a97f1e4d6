-- Purpose: find what a ledger lacks that others know of: contents that have landed, their numbers, windows, workings, exporters.
-- Parameters: window_s; kept_s: how long ledgers are kept, seconds.
-- Result: one row for each table that lacks something. lacking String; missing UInt64: contents, windows, workings or exporters.
WITH now() - toIntervalSecond({kept_s:UInt64}) AS since
SELECT lacking, missing
FROM
(
    SELECT 'landings_log' AS lacking, uniqExact(landing) AS missing
    FROM landing_counts_log
    WHERE landing != '' AND position(landing, '-again-') = 0 AND written_at > since
        AND landing NOT IN (SELECT landing FROM landings_log)
    UNION ALL
    SELECT 'landing_counts_log' AS lacking, count() AS missing
    FROM landings AS l
    LEFT JOIN
    (
        SELECT content, max(counted) AS counted
        FROM
        (
            SELECT splitByString('-again-', landing)[1] AS content, landing, sum(c.records) AS counted
            FROM landing_counts_log AS c
            WHERE landing != ''
            GROUP BY content, landing
        )
        GROUP BY content
    ) AS c ON c.content = l.landing
    WHERE status = 'done' AND l.changed_at > since AND c.counted < l.records
    UNION ALL
    SELECT 'windows_log' AS lacking, uniqExact(window_start) AS missing
    FROM published
    WHERE window_start > (SELECT final_until FROM raw_horizon)
        AND window_start < (SELECT max(window_start) FROM published)
        AND window_start NOT IN (SELECT window_start FROM windows_log)
        AND intDiv(toUnixTimestamp(window_start), {window_s:Int64}) IN (
            SELECT intDiv(toUnixTimestamp(second), {window_s:Int64}) FROM arrivals_log
        )
    UNION ALL
    SELECT 'revision_claims' AS lacking, uniqExact(revision) AS missing
    FROM published
    WHERE revision NOT IN (SELECT revision FROM revision_claims)
    UNION ALL
    SELECT 'exporter_marks_log' AS lacking, uniqExact(sampler_address) AS missing
    FROM switch_1m_log
    WHERE sampler_address NOT IN (SELECT sampler_address FROM exporter_marks_log)
)
WHERE missing > 0
ORDER BY lacking;

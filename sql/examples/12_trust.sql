-- Can the records be trusted: who sent them, how late, and what could not be used?
SELECT what, name, records, last_time
FROM
(
    SELECT 'exporter' AS what, exporter AS name, flows AS records, last_seen AS last_time FROM exporters
    UNION ALL
    SELECT 'rejected', reason, count(), max(received_at) FROM flows_rejected GROUP BY reason
    UNION ALL
    SELECT 'late', 'windows', sum(late_flows), max(window_end) FROM windows
)
ORDER BY what DESC, records DESC, name
LIMIT 5

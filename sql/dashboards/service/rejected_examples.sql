-- Reasons for which records could not be used in the span, each with an example.
SELECT reason AS "Reason", count() AS "Records", uniqExact(source) AS "Sources", max(received_at) AS "Last", any(substring(record, 1, 300)) AS "Example"
FROM flows_rejected
WHERE $__timeFilter(received_at)
GROUP BY reason
ORDER BY "Records" DESC, reason

-- Purpose: find the days of which a table of sums has fewer flows than have arrived.
-- Parameters: table; time: its column of time; kept_s: only what arrived within so many seconds, as older sums may be gone.
-- Result: day_s Int64, start of the day, Unix seconds; by time.
SELECT day_s
FROM
(
    SELECT intDiv(toUnixTimestamp(second)::Int64, 86400) * 86400 AS day_s, sum(a.records) AS records
    FROM arrivals_log AS a
    WHERE first_written_at > now() - toIntervalSecond({kept_s:UInt64})
        AND second > (SELECT final_until FROM raw_horizon)
    GROUP BY day_s
) AS arrived
LEFT JOIN
(
    SELECT intDiv(toUnixTimestamp({time:Identifier})::Int64, 86400) * 86400 AS day_s, sum(t.flows) AS flows
    FROM {table:Identifier} AS t
    GROUP BY day_s
) AS summed USING (day_s)
WHERE flows < records
ORDER BY day_s;

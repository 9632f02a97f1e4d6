-- Purpose: list the windows that must be worked, by comparing the flows that have arrived with the ledger.
--   A window of {window_s} seconds that holds flows is due where it was never worked, failed, was worked in part by another
--   version, was worked with other flows or other inputs, or was worked before an earlier window was (results rest on those
--   of all earlier windows).
--   So is one without flows that follows the last one with any and ends by {silent_until_ns}: that nothing comes is news too.
--   Every worked window after the first due one follows it, also those outside the bounds.
--   Ledger rows of another window length, or from before the length last changed, don't count.
--   Final windows, whose raw flows may be gone (raw_horizon), are never worked again, whatever came or changed.
-- Parameters: window_s; from_ns, to_ns: only windows that overlap [from, to) are due by themselves; until_ns: only those
--   that end by then; silent_until_ns: 0 where the cluster is not silent; inputs: digest of all else the results depend on;
--   version: this version of prism-ch; force: 1 takes windows within the bounds as due;
--   final: 1 lists, instead, the final windows that would be due if they were not final.
-- Result: start_ns Int64, end_ns Int64; nanoseconds since the epoch, in order of time.
WITH
    {window_s:Int64} * 1000000000 AS length_ns,
    (SELECT toUnixTimestamp(final_until)::Int64 FROM raw_horizon) AS final_until_s,
    (
        SELECT max(revision)
        FROM windows_log
        WHERE toUnixTimestamp64Nano(window_end) - toUnixTimestamp64Nano(window_start) != length_ns
    ) AS last_other,
    arrived AS
    (
        -- Part sums add up as they are, and of the past only what is needed is read.
        SELECT
            intDiv(toUnixTimestamp(second)::Int64, {window_s:Int64}) * length_ns AS start_ns,
            sum(a.records) AS records,
            sum(a.fingerprint) AS fingerprint
        FROM arrivals_log AS a
        WHERE if(
            {final:UInt8},
            second < toDateTime(final_until_s + {window_s:Int64}, 'UTC'),
            second > toDateTime(final_until_s, 'UTC')
        )
        GROUP BY start_ns
        HAVING (start_ns <= final_until_s * 1000000000) = {final:UInt8}
    ),
    ledger AS
    (
        SELECT
            toUnixTimestamp64Nano(window_start) AS start_ns,
            revision,
            fingerprint,
            inputs,
            status = 'worked' OR (status = 'partial' AND version = {version:String}) AS is_worked,
            flows
        FROM windows_log FINAL
        WHERE toUnixTimestamp64Nano(window_end) - start_ns = length_ns AND revision > last_other
    ),
    (SELECT max(start_ns) FROM arrived) AS last_ns,
    silent AS
    (
        SELECT arrayJoin(
            arrayDistinct(arrayConcat(
                -- Where nothing has arrived, not every window since 1970.
                range(if(last_ns > 0, last_ns, {silent_until_ns:Int64}) + length_ns, {silent_until_ns:Int64} - length_ns + 1, length_ns),
                (SELECT groupArray(start_ns) FROM ledger WHERE flows = 0 AND start_ns > final_until_s * 1000000000)
            ))
        ) AS start_ns
        WHERE NOT {final:UInt8} AND last_ns > 0
    ),
    present AS
    (
        SELECT start_ns, records, fingerprint FROM arrived
        UNION ALL
        SELECT start_ns, 0 AS records, 0 AS fingerprint FROM silent WHERE start_ns NOT IN (SELECT start_ns FROM arrived)
    ),
    -- The last analysis of any final window.
    (SELECT max(revision) FROM ledger WHERE start_ns <= final_until_s * 1000000000) AS last_final,
    judged AS
    (
        SELECT
            start_ns,
            start_ns + length_ns AS end_ns,
            l.revision > 0 AS is_known,
            greatest(
                last_final,
                max(l.revision) OVER (ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
            ) AS highest,
            start_ns < {to_ns:Int64} AND end_ns > {from_ns:Int64} AND end_ns <= {until_ns:Int64}
                AND (
                    {force:UInt8} OR NOT l.is_worked OR (NOT {final:UInt8} AND l.revision < highest)
                    OR l.fingerprint != p.fingerprint OR l.inputs != {inputs:UInt64}
                ) AS is_due
        FROM present AS p
        LEFT JOIN ledger AS l USING (start_ns)
    )
SELECT start_ns, end_ns
FROM
(
    SELECT
        start_ns,
        end_ns,
        is_due,
        NOT {final:UInt8} AND is_known
            AND max(is_due) OVER (ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS is_after_due
    FROM judged
)
WHERE is_due OR is_after_due
ORDER BY start_ns;

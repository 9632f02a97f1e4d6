-- Purpose: find the seconds whose flows are not those that have arrived. Repeats do not matter: compared are the lowest and highest
--   hash of a second, and whether it has rows at all. Seconds whose raw flows may be gone by retention are left out.
-- Parameters: from_ns, to_ns: only seconds that start in [from, to), nanoseconds since the epoch; worked: 1 takes only windows that
--   were worked, of {window_s} seconds.
-- Result: one row for each table that lacks rows. lacking String: flows_log or arrivals_log; seconds UInt64; start_ns, end_ns Int64:
--   from the first to the end of the last; records UInt64: records that have arrived in them; present UInt64: rows of them that are
--   there; first_written_s, last_written_s Int64: when the records landed, Unix seconds.
WITH
    (SELECT toUnixTimestamp(final_until)::Int64 FROM raw_horizon) AS final_until_s,
    greatest(intDiv({from_ns:Int64}, 1000000000), final_until_s + 1, 0) AS from_s,
    intDiv({to_ns:Int64}, 1000000000) AS to_s,
    arrived AS
    (
        SELECT
            toUnixTimestamp(second)::Int64 AS second_number,
            sum(a.records) AS records,
            min(a.lowest_hash) AS lowest,
            max(a.highest_hash) AS highest,
            toUnixTimestamp(min(a.first_written_at))::Int64 AS first_written_s,
            toUnixTimestamp(max(a.written_at))::Int64 AS last_written_s
        FROM arrivals_log AS a
        WHERE second_number >= from_s AND second_number < to_s
        GROUP BY second_number
    ),
    stored AS
    (
        SELECT
            intDiv(time_flow_end_ns, 1000000000) AS second_number,
            count() AS present,
            min(hash) AS lowest_present,
            max(hash) AS highest_present
        FROM
        (
            SELECT
                time_flow_end_ns,
                cityHash64(
                    time_flow_start_ns, time_flow_end_ns, cityHash64(src_addr), cityHash64(dst_addr), src_port, dst_port,
                    toUInt16(proto), bytes, packets, cityHash64(sampler_address)
                ) AS hash
            FROM flows_log
            WHERE time_flow_end_ns >= from_s * 1000000000 AND time_flow_end_ns < to_s * 1000000000
        )
        GROUP BY second_number
    ),
    worked AS
    (
        SELECT toUnixTimestamp64Nano(window_start) AS start_ns
        FROM windows_log FINAL
        WHERE status != 'failed' AND dateDiff('second', window_start, window_end) = {window_s:Int64}
    ),
    judged AS
    (
        SELECT
            second_number,
            records,
            present,
            first_written_s,
            last_written_s,
            multiIf(
                records > 0 AND present = 0, 'flows_log',
                records = 0, 'arrivals_log',
                lowest = 0, '',
                lowest_present > lowest OR highest_present < highest, 'flows_log',
                lowest_present < lowest OR highest_present > highest, 'arrivals_log',
                ''
            ) AS lacking
        FROM arrived
        FULL OUTER JOIN stored USING (second_number)
    )
SELECT
    lacking,
    count() AS seconds,
    min(second_number) * 1000000000 AS start_ns,
    (max(second_number) + 1) * 1000000000 AS end_ns,
    sum(j.records) AS records,
    sum(j.present) AS present,
    minIf(j.first_written_s, j.first_written_s > 0) AS first_written_s,
    max(j.last_written_s) AS last_written_s
FROM judged AS j
WHERE lacking != ''
    AND (NOT {worked:UInt8} OR intDiv(second_number, {window_s:Int64}) * {window_s:Int64} * 1000000000 IN (SELECT start_ns FROM worked))
GROUP BY lacking
ORDER BY lacking DESC;

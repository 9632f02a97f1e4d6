-- Purpose: makes records that could not be used, more of them towards the end.
-- Parameters: from_ns, windows.
INSERT INTO flows_rejected_log (received_at, source, reason, record, position)
SELECT
    fromUnixTimestamp64Milli(intDiv({from_ns:Int64}, 1000000) + toInt64(sqrt(number / 2000) * {windows:UInt64} * 60000)),
    'collector-1', ['bad_time', 'no_time', 'bad_address', 'bad_number'][number % 4 + 1], '{"src_addr": "?"}', number
FROM numbers(2000);

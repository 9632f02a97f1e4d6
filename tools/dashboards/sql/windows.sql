-- Purpose: makes the ledger of windows: one a minute, some with late flows, and two that failed.
-- Parameters: from_ns, windows, endpoints.
INSERT INTO windows_log
    (window_start, window_end, revision, flows, first_flows, fingerprint, inputs, worked_at, attempts, status, error, seconds)
SELECT
    fromUnixTimestamp64Nano(start_ns), fromUnixTimestamp64Nano(start_ns + 60000000000), number + 1,
    {endpoints:UInt32} * 40, {endpoints:UInt32} * 40 - if(number % 97 = 0, 300, 0), number, 1,
    fromUnixTimestamp64Milli(intDiv(start_ns, 1000000) + 75000 + number % 13 * 1000), 1 + (number % 97 = 0),
    if(number % 180 = 179, 'failed', 'worked'),
    if(number % 180 = 179, 'Memory limit exceeded while reading flows; give the engine more, or let less run at once', ''),
    map('read', 0.4 + number % 7 / 10, 'examine', 1.5 + number % 11 / 5, 'write', 0.3 + number % 5 / 20)
FROM (SELECT number, {from_ns:Int64} + toInt64(number) * 60000000000 AS start_ns FROM numbers({windows:UInt64}));

-- Purpose: makes what the service measured of itself, twice a minute.
-- Parameters: from_ns, windows, leaves.
INSERT INTO measures_log (checked_at, process, measure, label, value)
WITH
    arrayMap(
        e -> if(e < {leaves:UInt32}, concat('leaf-', toString(intDiv(e, 8)), '-', toString(e % 8)), concat('spine-', toString(e - {leaves:UInt32}))),
        range({leaves:UInt32} + 8)
    ) AS exporters
SELECT fromUnixTimestamp64Milli(intDiv({from_ns:Int64}, 1000000) + toInt64(t) * 30000), 'prism-1:7', m.1, m.2, m.3
FROM
(
    SELECT
        number AS t,
        arrayJoin(arrayConcat(
            [
                ('windows_behind', '', 1. + (t % 500 > 480) * (t % 20)), ('windows_worked', '', toFloat64(intDiv(t, 2))), ('windows_failed', '', toFloat64(intDiv(t, 360))),
                ('records_landed_total', '', t * 57600.), ('records_rejected_total', 'bad_time', t / 8.), ('records_rejected_total', 'no_time', t / 16.),
                ('flows_late', '', t * 3.), ('stage_seconds', 'read', 0.6), ('stage_seconds', 'examine', 2.1), ('stage_seconds', 'write', 0.4),
                ('memory_bytes', '', 3e9 + t % 100 * 1e7), ('spool_files', '', toFloat64(t % 4)), ('database_up', '', 1.)
            ],
            arrayFlatten(arrayMap(
                (e, name) -> [('exporter_lag_seconds', name, 1. + e % 5 * 0.3 + (e = 1) * 25), ('exporter_silent_seconds', name, 2. + e % 5)],
                range(length(exporters)),
                exporters
            ))
        )) AS m
    FROM numbers({windows:UInt64} * 2)
);

-- The worst severity of the incidents of each kind, over time: 0 none, 1 info, 2 warning, 3 critical.
WITH
    toUnixTimestamp($__fromTime) AS since,
    toUnixTimestamp($__toTime) AS until,
    greatest($__interval_s, intDiv(until - since, 300), 1) AS bucket_s,
    arrayJoin(range(intDiv(since, bucket_s)::UInt32, intDiv(until, bucket_s)::UInt32 + 1)) AS bucket
SELECT toDateTime(bucket * bucket_s) AS time, $__kind_text(k.kind) AS kind, arrayMax(arrayMap(f -> (f.1 < (bucket + 1) * bucket_s AND f.2 >= bucket * bucket_s) * f.3, k.found)) AS severity
FROM
(
    SELECT kind::String AS kind, groupArray((toUnixTimestamp(start_time), toUnixTimestamp(end_time), severity::Int8)) AS found
    FROM incidents
    WHERE end_time >= $__fromTime AND start_time <= $__toTime AND $__whose_incidents
    GROUP BY kind
) AS k
ORDER BY time, kind

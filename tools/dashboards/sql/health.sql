-- Purpose: makes what the service found of its own health at the end of the data.
-- Parameters: end_ns.
INSERT INTO health_log (checked_at, process, name, state, what, mend)
SELECT fromUnixTimestamp64Milli(intDiv({end_ns:Int64}, 1000000)), 'prism-1:7', h.1, h.2, h.3, h.4
FROM
(
    SELECT arrayJoin([
        ('configuration', 'ok', 'it can be read', ''),
        ('database', 'ok', 'it answers', ''),
        ('windows behind', 'ok', '1', ''),
        ('disk of the database', 'warn', '14 % free', 'make room or a larger disk'),
        ('exporters', 'bad', 'leaf-0-1 is 26 s behind the others', 'look at its export queue')
    ]) AS h
);

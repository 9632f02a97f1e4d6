-- Purpose: show how the service stands on the page at /.
-- Parameters: none.
-- Result: name; state String: ok, warn, bad; what, mend String; checked_ns Int64; what is worst first.
SELECT name, state::String AS state, what, mend, toUnixTimestamp64Milli(checked_at) * 1000000 AS checked_ns
FROM health AS h
ORDER BY h.state DESC, name
LIMIT 100;

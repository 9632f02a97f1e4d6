-- Purpose: delete the sums of a day.
-- Parameters: table; time: its column of time; day_s: start of the day, Unix seconds.
-- Result: none.
ALTER TABLE {table:Identifier} DELETE WHERE intDiv(toUnixTimestamp({time:Identifier}), 86400) * 86400 = {day_s:Int64} SETTINGS mutations_sync = 1;

-- Purpose: delete the blocks of steps of a day that workings wrote.
-- Parameters: day_s: start of the day, Unix seconds; revisions: the workings.
-- Result: none.
ALTER TABLE step_blocks_log
    DELETE WHERE toDate(start_time, 'UTC') = toDate(fromUnixTimestamp({day_s:Int64}), 'UTC') AND has({revisions:Array(UInt64)}, revision)
SETTINGS mutations_sync = 1;

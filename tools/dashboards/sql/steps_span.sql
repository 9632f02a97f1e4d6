-- Purpose: returns when the first of some steps of a job began and the last ended, nanoseconds since the epoch.
-- Parameters: job_id, first, last.
SELECT toUnixTimestamp64Nano(min(start_time)), toUnixTimestamp64Nano(max(end_time))
FROM steps_log
WHERE job_id = {job_id:String} AND step BETWEEN {first:UInt64} AND {last:UInt64};

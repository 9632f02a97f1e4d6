-- Purpose: read the phases of a job's endpoints in some of its steps as columns.
-- Parameters: job_id; first_step, last_step, both included.
-- Result: endpoint, a dictionary; step; phase_code Int8, the number of its name; start_ns, end_ns Int64, nanoseconds since the epoch;
--   by endpoint and time.
SELECT
    toLowCardinality(endpoint) AS endpoint,
    step,
    toInt8(phase) AS phase_code,
    toUnixTimestamp64Nano(start_time) AS start_ns,
    toUnixTimestamp64Nano(end_time) AS end_ns
FROM timeline
WHERE job_id = {job_id:String} AND step >= {first_step:UInt64} AND step <= {last_step:UInt64}
ORDER BY endpoint, step, start_ns, end_ns
SETTINGS output_format_arrow_low_cardinality_as_dictionary = 1, output_format_arrow_compression_method = 'none';

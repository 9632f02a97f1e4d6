-- Purpose: makes the phases of the latest steps of each endpoint of one job: the work in pieces, then the collective.
-- Parameters: job_id; detail_from_ns, from when on.
INSERT INTO timeline_log (job_id, revision, endpoint, step, start_time, phases, lengths_ns)
SELECT
    job_id, revision, endpoint, step, start_time,
    ['compute', 'PP', 'compute', 'PP', 'compute', 'PP', 'compute', 'DP'],
    [
        toUInt64(compute_s * 3e8), toUInt64(pp_s * 3e8), toUInt64(compute_s * 2e8), toUInt64(pp_s * 4e8),
        toUInt64(compute_s * 3e8), toUInt64(pp_s * 3e8), toUInt64(compute_s * 2e8),
        toUInt64(toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time))
            - 2 * toUInt64(compute_s * 3e8) - 2 * toUInt64(compute_s * 2e8) - 2 * toUInt64(pp_s * 3e8) - toUInt64(pp_s * 4e8)
    ]
FROM gpu_steps_log
WHERE job_id = {job_id:String} AND start_time >= fromUnixTimestamp64Nano({detail_from_ns:Int64});

-- Purpose: gives one job the directed pairs of its groups: rings, and neighbours of a pipeline in both directions.
-- Parameters: job_id.
INSERT INTO pairs_log (job_id, revision, src_addr, dst_addr, kind, confidence, flows, bytes, first_seen, last_seen)
WITH (SELECT (min(start_time), max(end_time), count()) FROM steps_log WHERE job_id = {job_id:String}) AS life
SELECT
    job_id, revision, pair.1, pair.2, kind::String, 0.99, life.3 * 8, life.3 * if(kind = 'DP', 800000000, 268435456),
    life.1, life.2
FROM groups_log
ARRAY JOIN
    arrayConcat(
        arrayZip(members, arrayRotateLeft(members, 1)),
        if(kind = 'PP', arrayZip(arrayRotateLeft(members, 1), members), [])
    ) AS pair
WHERE job_id = {job_id:String} AND length(members) > 1;

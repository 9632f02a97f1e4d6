-- Who makes the others wait: GPUs that incidents of the span name, open ones first, then those that were ready last in most
-- of its slow steps. A step in which several can't be told apart counts for each of them in part.
WITH
    (SELECT any(step_s_median) FROM jobs WHERE job_id = ${job:sqlstring}) AS usual_s,
    named AS
    (
        SELECT
            arrayJoin(arrayDistinct(arrayPushFront(may_also_be, subject))) AS place,
            max(status = 'open') AS is_open,
            sum(confidence * lost_gpu_h) AS blame,
            max(confidence) AS sure,
            arrayStringConcat(arraySort(groupUniqArray(kind::String)), ', ') AS kinds
        FROM incidents
        WHERE has(jobs, ${job:sqlstring}) AND severity != 'info' AND end_time >= $__fromTime AND start_time <= $__toTime
        GROUP BY place
    ),
    last_ready AS
    (
        SELECT arrayJoin(slowest_endpoints) AS endpoint, sum(1 / length(slowest_endpoints)) AS steps
        FROM steps
        WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time) AND duration_s > 1.05 * usual_s
        GROUP BY endpoint
    )
SELECT
    concat(m.server, ' GPU ', toString(m.gpu)) AS "GPU",
    m.endpoint AS "Endpoint",
    if(e.kinds != '', e.kinds, s.kinds) AS "Named by incidents",
    if(greatest(e.sure, s.sure) > 0, greatest(e.sure, s.sure), NULL) AS "Sure",
    l.steps AS "Last in slow steps"
FROM (SELECT endpoint, server, gpu FROM job_members WHERE job_id = ${job:sqlstring}) AS m
LEFT JOIN named AS e ON m.endpoint = e.place
LEFT JOIN named AS s ON m.server = s.place
LEFT JOIN last_ready AS l ON m.endpoint = l.endpoint
WHERE e.blame > 0 OR s.blame > 0 OR l.steps > 0
ORDER BY greatest(e.is_open, s.is_open) DESC, greatest(e.blame, s.blame) DESC, l.steps DESC, "GPU"
LIMIT 20

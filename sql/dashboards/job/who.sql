-- Whom the others wait for: GPUs that incidents of the span name, those of warning or worse and open ones first, then those that
-- were ready last in most of its slow steps, then those that worked longest beyond their peers, in up to 40 steps. A step in
-- which several can't be told apart counts for each of them in part. Peers are the GPUs of the same stage and turn: of the same
-- data-parallel group, of a small one those of the same stage. Work is computing without what a GPU waited for; where replays are
-- off, that isn't known, and work isn't told.
WITH
    (SELECT any(step_s_median) FROM jobs WHERE job_id = ${job:sqlstring}) AS usual_s,
    named AS
    (
        WITH if(subject_type = 'group', [concat('group ', subject)], splitByString('->', subject)) AS subjects
        SELECT
            arrayJoin(arrayDistinct(arrayConcat(subjects, may_also_be))) AS place,
            max(severity != 'info') AS is_dear,
            max(status = 'open') AS is_open,
            max(has(subjects, place)) AS is_subject,
            sum(confidence * lost_gpu_h) AS blame,
            max(confidence) AS sure,
            arrayStringConcat(arraySort(groupUniqArray($__kind_text(kind))), ', ') AS kinds
        FROM incidents
        WHERE has(jobs, ${job:sqlstring}) AND end_time >= $__fromTime AND start_time <= $__toTime
        GROUP BY place
    ),
    member AS
    (
        SELECT
            endpoint,
            server,
            gpu,
            if(count() OVER (PARTITION BY dp_group) > 2, dp_group::Int64, -1 - pp_stage::Int64) AS peers
        FROM job_members
        WHERE job_id = ${job:sqlstring}
    ),
    blamed AS
    (
        SELECT
            m.endpoint AS endpoint,
            1 AS is_named,
            max(n.is_dear) AS is_dear,
            max(n.is_open) AS is_open,
            max(n.blame) AS blame,
            max(m.place = m.endpoint) AS is_itself,
            max(n.is_subject) AS is_subject,
            max(n.sure) AS sure,
            argMax(n.kinds, m.place = m.endpoint) AS kinds
        FROM
        (
            SELECT
                endpoint,
                arrayJoin([endpoint, server, concat('group ', toString(dp_group)), concat(job_id, '/stage/', toString(pp_stage))]) AS place
            FROM job_members
            WHERE job_id = ${job:sqlstring}
        ) AS m
        INNER JOIN named AS n ON m.place = n.place
        GROUP BY endpoint
    ),
    last_ready AS
    (
        SELECT arrayJoin(slowest_endpoints) AS endpoint, sum(1 / length(slowest_endpoints)) AS steps
        FROM steps
        WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time) AND duration_s > 1.05 * usual_s
        GROUP BY endpoint
    ),
    worked AS
    (
        SELECT endpoint, avg(compute_s - idle_s) AS work_s
        FROM gpu_steps
        WHERE job_id = ${job:sqlstring} AND step IN
        (
            SELECT step
            FROM (SELECT step, row_number() OVER (ORDER BY step) AS place, count() OVER () AS total FROM steps WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time))
            WHERE place % greatest(intDiv(total + 39, 40), 1) = 0
        )
            AND start_time >= $__fromTime - INTERVAL 1 HOUR AND start_time <= $__toTime
        GROUP BY endpoint
    )
SELECT
    concat(m.server, ' GPU ', toString(m.gpu)) AS "GPU",
    m.endpoint AS "Endpoint",
    m.server AS "Server",
    b.kinds AS "Named by incidents",
    nullIf(b.sure, 0) AS "Sure",
    l.steps AS "Last in slow steps",
    w.work_s / nullIf(median(w.work_s) OVER (PARTITION BY m.peers), 0) - 1 AS "Work beyond peers"
FROM member AS m
LEFT JOIN blamed AS b ON m.endpoint = b.endpoint
LEFT JOIN last_ready AS l ON m.endpoint = l.endpoint
LEFT JOIN worked AS w ON m.endpoint = w.endpoint
WHERE b.is_named = 1 OR l.steps > 0 OR w.work_s > 0
ORDER BY b.is_dear DESC, b.is_open DESC, b.blame DESC, b.is_named DESC, b.is_itself DESC, b.is_subject DESC, l.steps DESC, "Work beyond peers" DESC NULLS LAST, "GPU"
LIMIT 20

-- Whom the others wait for: GPUs that the incident names, those of a server, group or stage that it names, then those that worked longest beyond
-- their peers, in up to 100 of its steps. Of the GPUs of the server that is its subject none is likelier but by that work. Peers are the GPUs of the same stage and turn: of the same data-parallel group, of a
-- small one those of the same stage. Work is computing without what a GPU waited for; where steps are not replayed, that isn't known,
-- and work isn't told.
WITH
    $__of_incident AS f,
    member AS
    (
        SELECT
            endpoint,
            server,
            gpu,
            if(count() OVER (PARTITION BY dp_group) > 2, dp_group::Int64, -1 - pp_stage::Int64) AS peers,
            indexOf(f.4, endpoint) AS place,
            arrayMap(
                name -> indexOf(f.4, name),
                [server, concat('group ', toString(dp_group)), concat(job_id, '/stage/', toString(pp_stage))]
            ) AS around,
            arrayMax(around) AS around_place
        FROM job_members
        WHERE job_id = f.1
    ),
    worked AS
    (
        SELECT endpoint, avg(compute_s - idle_s) AS work_s
        FROM gpu_steps
        WHERE job_id = f.1 AND step <= f.3 AND step IN (SELECT f.2 + number * intDiv(f.3 - f.2 + 100, 100) FROM numbers(100))
        GROUP BY endpoint
    ),
    last_ready AS
    (
        SELECT arrayJoin(slowest_endpoints) AS endpoint, sum(1 / length(slowest_endpoints)) AS steps
        FROM steps
        WHERE job_id = f.1 AND step BETWEEN f.2 AND f.3
        GROUP BY endpoint
    )
SELECT
    concat(m.server, ' GPU ', toString(m.gpu)) AS "GPU",
    m.endpoint AS "Endpoint",
    m.server AS "Server",
    multiIf(m.place = 1, 'culprit', m.place > 1, 'may be', m.around_place > 0, ['its server', 'its group', 'its stage'][indexOf(m.around, m.around_place)], '') AS "Named",
    w.work_s / nullIf(median(w.work_s) OVER (PARTITION BY m.peers), 0) - 1 AS "Work beyond peers",
    l.steps AS "Last in steps"
FROM member AS m
LEFT JOIN worked AS w ON m.endpoint = w.endpoint
LEFT JOIN last_ready AS l ON m.endpoint = l.endpoint
WHERE m.place > 0 OR m.around_place > 0 OR l.steps > 0 OR w.work_s > 0
ORDER BY m.place > 0 DESC, m.around_place > 0 DESC, m.around_place != 1 ? m.place : 0, m.around_place, "Work beyond peers" DESC NULLS LAST, "Last in steps" DESC, m.server, m.gpu
LIMIT 20

-- The longest steps in the span, with who kept the others waiting and the findings on them.
WITH
    (
        SELECT groupArray((first_step, last_step, $__kind_text(kind), incident_id))
        FROM (SELECT * FROM diagnoses WHERE job_id = ${job:sqlstring} AND kind != 'telemetry' ORDER BY severity DESC, slowdown DESC)
    ) AS found,
    (SELECT any(step_s_median) FROM jobs WHERE job_id = ${job:sqlstring}) AS usual_s,
    arrayFilter(f -> s.step BETWEEN f.1 AND f.2, found) AS on_step
SELECT
    s.step AS "Step",
    s.start_time AS "Start",
    s.duration_s AS "Duration",
    s.duration_s / nullIf(usual_s, 0) - 1 AS "Slower",
    s.compute_s AS "Compute",
    s.pp_s AS "Pipeline",
    s.dp_s AS "Data parallel",
    multiIf(empty(m.server), '', empty(s.slowest_endpoint), m.server, concat(m.server, ' GPU ', toString(m.gpu))) AS "Waited for",
    arrayStringConcat(arrayDistinct(on_step.3), ', ') AS "Findings",
    on_step[1].4 AS "Incident"
FROM
(
    SELECT step, start_time, duration_s, compute_s, pp_s, dp_s, slowest_endpoint, slowest_endpoints[1] AS waited_for
    FROM steps
    WHERE job_id = ${job:sqlstring} AND $__timeFilter_ms(end_time)
    ORDER BY duration_s DESC, step
    LIMIT 100
) AS s
LEFT JOIN (SELECT endpoint, server, gpu FROM job_members WHERE job_id = ${job:sqlstring}) AS m ON s.waited_for = m.endpoint
ORDER BY s.duration_s DESC, s.step

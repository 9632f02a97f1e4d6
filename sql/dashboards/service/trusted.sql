-- Whether what the dashboards show can be trusted: no where the service has noted nothing for 10 minutes, or one thing that it
-- looks at is bad; in part where one is so-so, or some job is not wholly seen.
WITH
    (SELECT max(checked_at) FROM health) AS noted_at,
    latest AS (SELECT state, concat(name, ': ', what) AS found, mend FROM health WHERE checked_at > noted_at - INTERVAL 10 MINUTE),
    (
        SELECT count()
        FROM (SELECT job_id, argMax(share, window_start) AS seen FROM visibility WHERE window_start > $__toTime - INTERVAL 1 HOUR AND window_start <= $__toTime GROUP BY job_id)
        WHERE seen < 0.9
    ) AS unseen,
    noted_at < $__toTime - INTERVAL 10 MINUTE AS is_silent,
    (SELECT (countIf(state = 'bad'), countIf(state = 'warn'), argMax(found, (state, found)), argMax(mend, (state, found))) FROM latest) AS worst
SELECT
    multiIf(is_silent OR worst.1 > 0, 'no', worst.2 > 0 OR unseen > 0, 'in part', 'yes') AS "Trusted",
    multiIf(
        is_silent, 'The service has noted nothing for 10 minutes: it does not run, or cannot reach the database',
        worst.1 + worst.2 > 0, worst.3,
        unseen > 0, concat(toString(unseen), ' jobs are not wholly seen'),
        'All that it looks at is well, and all jobs are seen'
    ) AS "Why",
    multiIf(
        is_silent, 'Run prism-ch doctor, and look whether prism-ch serve runs',
        worst.1 + worst.2 > 0, worst.4,
        unseen > 0, 'See below why',
        ''
    ) AS "How to mend it"

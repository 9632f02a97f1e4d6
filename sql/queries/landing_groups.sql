-- Purpose: find out with which others contents were begun that did not land to their end: several files that land together are
--   noted in one statement, and so at one time.
-- Parameters: landings: identities of contents.
-- Result: one row a group of which one was asked for: landings Array(String), sources Array(String), in the same order.
SELECT
    groupArray(landing) AS landings,
    groupArray(source) AS sources
FROM
(
    SELECT landing, source, changed_at
    FROM landings
    WHERE status = 'started'
        AND changed_at IN (SELECT changed_at FROM landings WHERE landing IN {landings:Array(String)} AND status = 'started')
    ORDER BY source
)
GROUP BY changed_at
ORDER BY landings;

-- What the service looks at, as it was found last, the worst first.
SELECT name AS "Looked at", state::String AS "State", what AS "Found", mend AS "How to mend it", checked_at AS "Checked"
FROM health
ORDER BY state DESC, checked_at DESC, name
LIMIT 100

-- How the service stands, as it was found last.
SELECT name AS "Looked at", state::String AS "State", what AS "Found", mend AS "How to mend it", checked_at AS "Checked", process AS "Process"
FROM health
ORDER BY state DESC, name
LIMIT 100

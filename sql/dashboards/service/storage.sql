-- What tables take on disk.
SELECT table AS "Table", sum(rows) AS "Rows", sum(bytes_on_disk) AS "On disk", count() AS "Parts"
FROM system.parts
WHERE database = currentDatabase() AND active
GROUP BY table
ORDER BY "On disk" DESC, table
LIMIT 30

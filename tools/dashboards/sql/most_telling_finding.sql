-- Purpose: name the findings whose dashboard shows most: those about a NIC, which rest on delays too, that have an end.
-- Parameters: none.
-- Result: diagnosis_id, the one that cost most first.
SELECT diagnosis_id
FROM diagnoses
WHERE kind = 'slow_nic' AND status = 'closed'
ORDER BY slowdown DESC

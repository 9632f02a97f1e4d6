-- Purpose: name the incidents whose dashboard shows most: those about a NIC, which rest on delays too, that have an end.
-- Parameters: none.
-- Result: incident_id, the one that cost most first.
SELECT incident_id
FROM incidents
WHERE kind = 'slow_nic' AND status = 'closed'
ORDER BY lost_gpu_h DESC

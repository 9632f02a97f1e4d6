-- Purpose: list the claims that have not ended and had a heartbeat within the last {timeout_s} seconds. The ledger's newest row
--   ends its claim and all before it, as no two workers hold claims at once.
-- Parameters: timeout_s: seconds; worker: whose own claims are left out.
-- Result: revision UInt64, worker String; by revision.
SELECT c.revision AS revision, c.worker AS worker
FROM revision_claims AS c
LEFT JOIN
(
    SELECT revision, worker, max(beat_at) AS last_beat_at, max(ended) AS has_ended
    FROM claim_beats
    WHERE beat_at > now64(3) - INTERVAL 1 DAY
    GROUP BY revision, worker
) AS b ON b.revision = c.revision AND b.worker = c.worker
WHERE c.revision > (SELECT max(revision) FROM windows_log)
    AND c.worker NOT IN ('', {worker:String})
    AND NOT b.has_ended
    AND greatest(toDateTime64(c.claimed_at, 3, 'UTC'), b.last_beat_at) > now64(3) - toIntervalSecond({timeout_s:UInt32})
ORDER BY revision;

-- Purpose: note the workings that were published and are not in the list of those begun, so that no number is used twice.
-- Parameters: none.
-- Result: none.
INSERT INTO revision_claims (revision, window_start, window_end)
SELECT revision, window_start, window_start
FROM published
WHERE revision NOT IN (SELECT revision FROM revision_claims);

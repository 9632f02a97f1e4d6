-- Purpose: sum how long the parts of the last analysis of each window took.
-- Parameters: none.
-- Result: stage String; windows UInt64; seconds Float64; by stage.
SELECT stage, count() AS windows, sum(s.seconds) AS seconds
FROM stage_seconds AS s
GROUP BY stage
ORDER BY stage;

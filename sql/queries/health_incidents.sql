-- Purpose: see how many incidents are open, and what they have cost so far.
-- Parameters: none.
-- Result: one row a severity and kind that is met: severity, kind String; incidents UInt64; lost_gpu_h Float64.
SELECT severity::String AS severity, kind::String AS kind, count() AS incidents, sum(lost_gpu_h) AS lost_gpu_h
FROM incidents
WHERE status = 'open'
GROUP BY severity, kind
ORDER BY severity, kind;

-- Purpose: incidents that lasted into a span of time.
-- Parameters: from_time, to_time: the span [from, to), UTC; severity, the least.
-- Result: the columns of incidents; open ones first, then the worst.
SELECT *
FROM incidents
WHERE end_time >= {from_time:DateTime64(9)} AND start_time < {to_time:DateTime64(9)} AND severity >= {severity:String}
ORDER BY status, severity DESC, lost_gpu_h DESC, start_time, incident_id;

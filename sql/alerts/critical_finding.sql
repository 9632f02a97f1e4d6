-- Purpose: see the critical findings, and whether they still last; hangs have a rule of their own.
-- Range: how long a finding that is not renewed is still told.
-- Result: tenant, job, kind, subject, finding String; lasting UInt8: 1 while it lasts, then 0 for 10 minutes.
SELECT
    tenant,
    job_id AS job,
    toString(kind) AS kind,
    subject,
    diagnosis_id AS finding,
    toUInt8(status = 'open') AS lasting
FROM diagnoses
WHERE severity = 'critical'
    AND diagnoses.kind != 'hang'
    AND $__timeFilter(end_time)
    AND (status = 'open' OR end_time >= $__toTime - INTERVAL 10 MINUTE)
ORDER BY finding

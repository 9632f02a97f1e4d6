-- Purpose: makes one finding, of the last working there was.
-- Parameters: job_id and tenant, empty where of no job; kind, subject_type, subject, status, severity, first_step,
-- last_step; start_ns, end_ns; observed, expected, slowdown; summary, evidence; incident_id, empty where of none.
INSERT INTO diagnoses_log
    (job_id, revision, diagnosis_id, tenant, kind, subject_type, subject, first_step, last_step, start_time, end_time,
     status, severity, observed, expected, score, slowdown, summary, evidence, incident_id, confidence)
SELECT
    {job_id:String}, (SELECT max(revision) FROM revisions WHERE job_id = ''), lower(hex(sipHash64({job_id:String}, {kind:String}, {subject:String}, {start_ns:Int64}))), {tenant:String},
    {kind:String}, {subject_type:String}, {subject:String}, {first_step:UInt64}, {last_step:UInt64},
    fromUnixTimestamp64Nano({start_ns:Int64}), fromUnixTimestamp64Nano({end_ns:Int64}), {status:String}, {severity:String},
    {observed:Float64}, {expected:Float64}, 9.5, {slowdown:Float64}, {summary:String}, {evidence:String}, {incident_id:String}, 0.95;

-- Purpose: show a replay that `prism-ch what-if` has just made, in any format.
-- Parameters: without, first_step, last_step, actual_s, replayed_s, without_s, saved_gpu_h.
-- Result: one row with these, as list_what_if.sql has them.
SELECT
    {without:String} AS `without`,
    '' AS incident_id,
    {first_step:UInt64} AS first_step,
    {last_step:UInt64} AS last_step,
    round({actual_s:Float64}, 3) AS actual_s,
    round({replayed_s:Float64}, 3) AS replayed_s,
    round({without_s:Float64}, 3) AS without_s,
    round({saved_gpu_h:Float64}, 4) AS saved_gpu_h,
    round(1 - {without_s:Float64} / nullIf({replayed_s:Float64}, 0), 4) AS share;

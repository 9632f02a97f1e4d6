-- How much did each tenant use, and how much of it was lost?
SELECT tenant, jobs, gpus, round(gpu_hours, 1) AS gpu_hours, round(gpu_hours_lost, 1) AS gpu_hours_lost, findings, open_findings
FROM tenant_summary
ORDER BY tenant_summary.gpu_hours_lost DESC, tenant

"""Incidents that a test makes up, written straight into their table."""

from __future__ import annotations

from typing import Any

from prism_ch.store.client import Store

#: What stands in a tenant's part for a place that is not his.
HIDDEN = "the network between your servers"


def of_job(store: Store, job_id: str, tenant: str, steps: int = 10) -> None:
    """Write a job of 8 GPUs with steps of 2 s, and publish it as revision 1."""
    about = {"job": job_id, "tenant": tenant, "steps": steps}
    store.command(
        "INSERT INTO jobs_log"
        " (job_id, revision, tenant, status, endpoints, steps, step_s_median, first_seen, last_seen)"
        " SELECT {job:String}, 1, {tenant:String}, 'running', 8, {steps:UInt32}, 2, now() - 600, now()",
        about,
    )
    store.command(
        "INSERT INTO steps_log (job_id, revision, tenant, step, start_time, end_time, duration_s, complete)"
        " SELECT {job:String}, 1, {tenant:String}, number, now() - 600 + 2 * number, now() - 598 + 2 * number, 2, 1"
        " FROM numbers({steps:UInt32})",
        about,
    )
    store.command(
        "INSERT INTO revisions (job_id, revision, cuts) SELECT arrayJoin(['', {job:String}]), 1, 0", {"job": job_id}
    )


def incident(  # noqa: PLR0913 - the columns of an incident
    store: Store,
    incident_id: str,
    subject: str,
    *,
    tenant: str = "",
    kind: str = "slow_gpu",
    subject_type: str = "endpoint",
    severity: str = "warning",
    status: str = "open",
    jobs: list[str] | None = None,
    tenants: list[str] | None = None,
    lost_gpu_h: float = 1.0,
    start_s: int | None = None,
    end_s: int | None = None,
    summary: str = "",
    revision: int = 1,
) -> None:
    """Write an incident, or with `tenant` that tenant's part; times are seconds since the epoch, by default now."""
    store.command(
        "INSERT INTO incidents_log (incident_id, revision, tenant, noted_time, kind, subject_type, subject, confidence,"
        " start_time, end_time, status, severity, jobs, tenants, gpus, lost_gpu_h, slowdown, summary, action, costs)"
        " SELECT {id:String}, {revision:UInt64}, {tenant:String}, start_time, {kind:String}, {type:String},"
        " {subject:String}, 0.9,"
        " fromUnixTimestamp({start:UInt32}) AS start_time, fromUnixTimestamp({end:UInt32}), {status:String},"
        " {severity:String}, {jobs:Array(String)}, {tenants:Array(String)}, 8 * length({jobs:Array(String)}),"
        " {lost:Float64}, 0.2, {summary:String}, 'Look there.',"
        " toJSONString(arrayMap(job -> CAST((job, 8, {lost:Float64} * 450 / length({jobs:Array(String)})),"
        " 'Tuple(job_id String, gpus UInt32, lost_s Float64)'), {jobs:Array(String)}))",
        {
            "id": incident_id,
            "tenant": tenant,
            "kind": kind,
            "type": subject_type,
            "subject": subject,
            "start": _now_s(store) - 300 if start_s is None else start_s,
            "end": _now_s(store) if end_s is None else end_s,
            "status": status,
            "severity": severity,
            "jobs": jobs or [],
            "tenants": tenants or [],
            "lost": lost_gpu_h,
            "summary": summary or subject,
            "revision": revision,
        },
    )


def part(store: Store, incident_id: str, tenant: str, job_id: str, subject: str = HIDDEN, **more: Any) -> None:
    """Write a tenant's part of an incident, about one job of his; `more` are columns as for incident()."""
    columns: dict[str, Any] = {"kind": "slow_switch", "subject_type": "switch", **more}
    incident(store, incident_id, subject, tenant=tenant, jobs=[job_id], tenants=[tenant], **columns)


def _now_s(store: Store) -> int:
    return int(str(store.scalar("SELECT toUnixTimestamp(now())")))

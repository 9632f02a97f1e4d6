"""Writes a job whose every name is chosen to break a page, with an incident, findings, steps and phases."""

from __future__ import annotations

import json
from collections.abc import Sequence

from prism_ch.store.client import Store
from tests.incidents import incident, of_job


def fill_hostile(store: Store, names: Sequence[str], gpus: int = 4, steps: int = 10) -> None:
    """Write a job for each name, which is also that of its tenant, its servers and all texts about it."""
    for place, name in enumerate(names):
        of_job(store, name, name, steps)
        for gpu in range(gpus):
            _gpu(store, name, f"{name}{gpu}", gpu, steps)
        incident(store, name, f"{name}0", jobs=[name], tenants=[name], severity=("critical", "info")[place % 2])
        incident(store, name, f"{name}0", tenant=name, jobs=[name], tenants=[name])
        ways = {f"{name}{a}->{name}{b}": 2.0 + a for a in range(2) for b in range(2)}
        evidence = {"observed_s_per_byte": ways, "usual_s_per_byte": dict.fromkeys(ways, 1.0)}
        store.command(
            "INSERT INTO diagnoses_log (job_id, revision, diagnosis_id, tenant, kind, subject_type, subject,"
            " first_step, last_step, start_time, end_time, status, severity, observed, expected, score, slowdown,"
            " summary, evidence, incident_id, confidence)"
            " SELECT {name:String}, 1, {name:String}, {name:String}, 'slow_gpu', 'endpoint',"
            " {subject:String}, 3, 6, now() - 590, now() - 580, 'open', 'critical', 2, 1, 9, 0.5, {name:String},"
            " {evidence:String}, {name:String}, 0.9",
            {"name": name, "subject": f"{name}0", "evidence": json.dumps(evidence)},
        )


def _gpu(store: Store, name: str, endpoint: str, gpu: int, steps: int) -> None:
    about = {"name": name, "endpoint": endpoint, "gpu": gpu, "steps": steps}
    store.command(
        "INSERT INTO job_members_log (job_id, revision, endpoint, server, gpu, dp_group, pp_stage, first_seen,"
        " last_seen) SELECT {name:String}, 1, {endpoint:String}, {name:String}, {gpu:UInt8}, 0, 0, now() - 600, now()",
        about,
    )
    store.command(
        "INSERT INTO gpu_steps_log (job_id, revision, tenant, endpoint, step, start_time, end_time, duration_s,"
        " compute_s, pp_s, dp_s, complete) SELECT {name:String}, 1, {name:String}, {endpoint:String}, number,"
        " now() - 600 + 2 * number, now() - 598 + 2 * number, 2, 1 + {gpu:UInt8} / 10, 0, 1 - {gpu:UInt8} / 10, 1"
        " FROM numbers({steps:UInt32})",
        about,
    )
    store.command(
        "INSERT INTO timeline_log (job_id, revision, endpoint, step, start_time, phases, lengths_ns)"
        " SELECT {name:String}, 1, {endpoint:String}, number, now() - 600 + 2 * number, ['compute', 'DP'],"
        " [1000000000, 1000000000] FROM numbers({steps:UInt32})",
        about,
    )

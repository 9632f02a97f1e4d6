"""Fills an empty database with results of a made-up cluster, so that dashboards have something to show.

The engine makes the rows itself (tools/dashboards/sql): that takes seconds, an analysis of as many flows hours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import sleep

from prism_ch.store.client import Store
from prism_ch.store.statements import split_statements

_SECOND_NS = 1_000_000_000
_MINUTE_S = 60
#: The engine starts merges one after the other: they are over once none has run for this long.
_QUIET_S = 3
#: Delay per byte, the same as in sql/flows.sql.
_USUAL_S_PER_BYTE = 1e-9 / 46
#: Settings under which the engine makes rows: partitions are days, and a block of a week spans several.
_SETTINGS = {"max_partitions_per_insert_block": 0, "max_insert_threads": 2}


@dataclass(frozen=True, slots=True)
class Episode:
    """Slow steps of a job, and their culprit.

    `start` and `stop` are shares of the job's steps, `factor` is the share by which they are longer.
    """

    start: float
    stop: float
    factor: float
    server: int
    gpu: int
    kind: str = "slow_gpu"


@dataclass(frozen=True, slots=True)
class SampleJob:
    """One job.

    `step_s` is the usual length of a step, `pause_at` the share of its steps at which it restarted. What its GPUs
    waited for is known if it `is_replayed`.
    """

    job_id: str
    tenant: str
    servers: int
    pp_size: int
    step_s: float
    episodes: tuple[Episode, ...] = ()
    pause_at: float = 0.0
    status: str = "running"
    ended_s: int = 0
    is_replayed: bool = False


@dataclass(frozen=True, slots=True)
class SampleCluster:
    """A cluster over the last `hours`.

    It has phases for the last `detail_s` and flow records for the last `raw_s`. Besides the findings of its episodes,
    each job has `minor` ones, of ten steps each, without loss.
    """

    hours: int
    detail_s: int
    raw_s: float
    jobs: tuple[SampleJob, ...]
    idle_servers: int = 0
    pod_servers: int = 32
    pause_s: float = 240.0
    minor: int = 0
    servers: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "servers", sum(job.servers for job in self.jobs) + self.idle_servers)

    @property
    def leaves(self) -> int:
        """Leaf switches: eight, one a rail, for every pod."""
        return 8 * -(-self.servers // self.pod_servers)


_ACME_SMALL = (
    Episode(0.55, 0.7, 0.35, 5, 3),
    Episode(0.78, 0.86, 0.3, 3, 2, "slow_nic"),
    Episode(0.96, 1, 0.5, 6, 6, "slow_nic"),
)
_OHARA_SMALL = (Episode(0.3, 0.34, 0.2, 2, 1), Episode(0.8, 0.83, 0.15, 4, 5, "slow_link"))
#: Three tenants, one with a quote in its name, and findings of many kinds.
SMALL = SampleCluster(
    hours=3,
    detail_s=900,
    raw_s=20,
    idle_servers=2,
    pod_servers=8,
    jobs=(
        SampleJob("job-1f0a6c", "acme", 8, 4, 9.1, _ACME_SMALL, pause_at=0.2),
        SampleJob("job-7b21d9", "o'hara labs", 6, 2, 6.6, _OHARA_SMALL, pause_at=0.5),
        SampleJob("job-c44e02", "acme", 3, 1, 4.2, (Episode(0.9, 1, 0.12, 2, 0),), is_replayed=True),
        SampleJob("job-e93b58", "o'hara labs", 2, 1, 12.5, status="stalled", ended_s=420),
        SampleJob("job-05d7aa", "zenith", 2, 2, 12.0, status="ended", ended_s=5400),
    ),
)

#: One job that hangs for the second half of the time.
HANG = SampleCluster(
    hours=1, detail_s=900, raw_s=20, jobs=(SampleJob("job-5c1e77", "acme", 4, 2, 8.0, status="stalled", ended_s=1800),)
)
#: Forty jobs, of which some are slow.
MANY = SampleCluster(
    hours=3,
    detail_s=900,
    raw_s=20,
    jobs=tuple(
        SampleJob(
            f"job-4{n:05x}", ("acme", "o'hara labs", "zenith")[n % 3], 2, 1 + n % 2, 8.0 + n,
            (Episode(0.9 - n / 100, 1, 0.1 + n / 100, 1, n % 8),) if n % 5 == 0 else (),
        )
        for n in range(40)
    ),
)  # fmt: skip

_ACME_LARGE = (Episode(0.55, 0.6, 0.35, 5, 3), Episode(0.99, 1, 0.5, 9, 6, "slow_nic"))
#: Seconds a step takes, from the shortest known to the longest.
_STEPS_S = (0.3, 1.2, 5.0, 22.0, 90.0)
#: A week of 2,880 GPUs.
LARGE = SampleCluster(
    hours=168,
    detail_s=7200,
    raw_s=60,
    idle_servers=4,
    pause_s=900.0,
    minor=20,
    jobs=(
        SampleJob("job-1f0a6c", "acme", 128, 8, 46.0, _ACME_LARGE),
        SampleJob("job-7b21d9", "o'hara labs", 64, 4, 31.0, (Episode(0.3, 0.31, 0.2, 2, 1),), pause_at=0.5),
        SampleJob("job-c44e02", "acme", 32, 2, 24.0, (Episode(0.95, 1, 0.12, 4, 0),)),
        SampleJob("job-e93b58", "zenith", 32, 4, 36.0, status="stalled", ended_s=420),
        *(SampleJob(f"job-2a{n:04x}", ("acme", "zenith")[n % 2], 20, 1, step_s) for n, step_s in enumerate(_STEPS_S)),
    ),
)


def fill(store: Store, cluster: SampleCluster, end_s: int) -> None:
    """Fill the tables with a cluster.

    Parameters: `end_s`, the end of its data: seconds since the epoch, a whole minute.
    """
    end_ns = end_s * _SECOND_NS
    windows = cluster.hours * 60
    shared = {
        "end_ns": end_ns,
        "from_ns": end_ns - windows * _MINUTE_S * _SECOND_NS,
        "windows": windows,
        "hours": cluster.hours,
        "servers": cluster.servers,
        "pod_servers": cluster.pod_servers,
        "leaves": cluster.leaves,
        "endpoints": cluster.servers * 8,
        "raw_s": cluster.raw_s,
        "detail_from_ns": end_ns - cluster.detail_s * _SECOND_NS,
        "slow": endpoint(6, 6),
    }
    tenants = [job.tenant for job in cluster.jobs for _ in range(job.servers)] + ["acme"] * cluster.idle_servers
    for name in ("topology", "topology_load"):
        _make(store, name, {**shared, "tenants": tenants})
    first_server = 0
    findings = _shared_findings(end_ns)
    for job in cluster.jobs:
        findings += _fill_job(store, cluster, job, first_server, shared)
        first_server += job.servers
    for name in ("revisions", "windows", "working", "exporters", "visibility"):
        _make(store, name, shared)
    for name in ("switch_minutes", "pair_hours", "flows", "ways", "rejected", "measures", "health"):
        _make(store, name, shared)
    for finding in findings:
        _make(store, "finding", finding)
    _make(store, "incidents", {})


def settle(store: Store) -> None:
    """Wait until the engine has merged all parts, as it does within a week."""
    quiet_s = 0
    while quiet_s < _QUIET_S:
        sleep(1)
        quiet_s = 0 if store.scalar(statement("merges"), {"database": store.database}) else quiet_s + 1


@cache
def statement(name: str) -> str:
    """Return the one statement of tools/dashboards/sql/<name>.sql."""
    (text,) = split_statements((Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8"))
    return text


def endpoint(server: int, gpu: int) -> str:
    """Return the address of a GPU's NIC, the same as in sql/topology.sql."""
    return f"10.{100 + gpu}.{server // 250}.{server % 250 + 1}"


def _fill_job(
    store: Store, cluster: SampleCluster, job: SampleJob, first_server: int, shared: dict[str, object]
) -> list[dict[str, object]]:
    """Make one job and its steps; return the findings about it."""
    slower = sum((episode.stop - episode.start) * episode.factor for episode in job.episodes)
    alive_s = cluster.hours * 3600 - job.ended_s - (cluster.pause_s if job.pause_at else 0) - _MINUTE_S
    steps = int(alive_s / job.step_s / (1 + slower))
    parameters = {
        **shared,
        "job_id": job.job_id,
        "tenant": job.tenant,
        "status": job.status,
        "endpoints": job.servers * 8,
        "first_server": first_server,
        "pp_size": job.pp_size,
        "step_s": job.step_s,
        "steps": steps,
        "end_ns": int(str(shared["end_ns"])) - job.ended_s * _SECOND_NS,
        "pause_at": job.pause_at,
        "pause_s": cluster.pause_s,
        "is_replayed": int(job.is_replayed),
        "episodes": [(e.start, e.stop, e.factor, e.server, e.gpu, int(e.kind == "slow_gpu")) for e in job.episodes],
    }
    for name in ("steps", "gpu_steps", "timeline", "state", "members", "groups", "pairs"):
        _make(store, f"job_{name}", parameters)
    return _job_findings(store, cluster, job, first_server, steps)


def _job_findings(
    store: Store, cluster: SampleCluster, job: SampleJob, first_server: int, steps: int
) -> list[dict[str, object]]:
    found = []
    for number, episode in enumerate(job.episodes):
        incident = f"{job.job_id}-{number}"
        cause = _episode_finding(store, job, episode, first_server, steps) | {"incident_id": incident}
        found += [cause, _symptom(job, cause)]
    for number in range(cluster.minor):
        first = steps * number // cluster.minor
        times = _span(store, job.job_id, first, first + 9)
        summary = f"Steps {first} to {first + 9} took a little longer"
        found.append(_finding(job, "slow_step", job.job_id, (first, first + 9), times, summary=summary))
    if job.pause_at:
        step = int(job.pause_at * steps)
        begun_ns, _ = _span(store, job.job_id, step, step)
        times = (begun_ns, begun_ns + int(cluster.pause_s * _SECOND_NS))
        summary = f"The job restarted: nothing moved for {cluster.pause_s:.0f} s"
        more = {"slowdown": 1.0, "observed": cluster.pause_s, "summary": summary}
        more["incident_id"] = f"{job.job_id}-restart"
        found.append(_finding(job, "restart", job.job_id, (step, step), times, **more))
    if job.status == "stalled":
        _, begun_ns = _span(store, job.job_id, steps - 1, steps - 1)
        times = (begun_ns, begun_ns + job.ended_s * _SECOND_NS)
        summary = "All flows of the job have ceased: look at the last collective that did not complete"
        more = {"slowdown": 1.0, "observed": float(job.ended_s), "summary": summary}
        open_ = {"status": "open", "severity": "critical", "incident_id": f"{job.job_id}-hang"}
        found.append(_finding(job, "hang", job.job_id, (steps, steps), times, **open_, **more))
    return found


def _episode_finding(
    store: Store, job: SampleJob, episode: Episode, first_server: int, steps: int
) -> dict[str, object]:
    first, last = math.ceil(episode.start * steps), math.ceil(episode.stop * steps) - 1
    server = first_server + episode.server
    nic = endpoint(server, episode.gpu)
    longer = f"Steps {first} to {last} took {episode.factor:.0%} longer"
    pairs = [] if episode.kind == "slow_gpu" else _pairs(store, job.job_id, nic)
    if episode.kind == "slow_link":
        pairs = pairs[:1]
    found = _finding(
        job,
        episode.kind,
        pairs[0] if episode.kind == "slow_link" else nic,
        (first, last),
        _span(store, job.job_id, first, last),
        subject_type="link" if episode.kind == "slow_link" else "endpoint",
        status="open" if episode.stop == 1 else "closed",
        severity="critical" if episode.factor > 0.3 else "warning",
        slowdown=episode.factor / (1 + episode.factor),
        observed=job.step_s * (1 + episode.factor),
        expected=job.step_s,
        summary=f"{longer}; the others waited for {nic} (host-{server:03}, GPU {episode.gpu})",
    )
    if pairs:
        found["evidence"] = json.dumps({**json.loads(str(found["evidence"])), **_delays(pairs)})
    return found


def _symptom(job: SampleJob, cause: Mapping[str, object]) -> dict[str, object]:
    """Return the finding that steps were slow, which belongs to the incident of its cause."""
    summary = str(cause["summary"]).partition(";")[0]
    same = ("incident_id", "status", "severity", "slowdown", "observed", "expected")
    steps = int(str(cause["first_step"])), int(str(cause["last_step"]))
    times = int(str(cause["start_ns"])), int(str(cause["end_ns"]))
    return _finding(job, "slow_step", job.job_id, steps, times, summary=summary, **{name: cause[name] for name in same})


def _delays(pairs: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return evidence that pairs take over twice the usual time per byte, increasingly."""
    slower = {pair: _USUAL_S_PER_BYTE * (2.2 + 0.1 * place) for place, pair in enumerate(pairs)}
    return {"observed_s_per_byte": slower, "usual_s_per_byte": dict.fromkeys(pairs, _USUAL_S_PER_BYTE)}


def _finding(
    job: SampleJob, kind: str, subject: str, steps: tuple[int, int], times: tuple[int, int], **more: object
) -> dict[str, object]:
    """Return the parameters of sql/finding.sql; `more` are those other than the defaults."""
    usual = {"subject_type": "job", "status": "closed", "severity": "warning", "slowdown": 0.0}
    found = {**usual, "observed": 0.0, "expected": 0.0, "summary": "", "incident_id": "", **more}
    lost_s = float(str(found["slowdown"])) * (times[1] - times[0]) / _SECOND_NS
    about = {"job_id": job.job_id, "tenant": job.tenant, "kind": kind, "subject": subject}
    when = {"first_step": steps[0], "last_step": steps[1], "start_ns": times[0], "end_ns": times[1]}
    return {**found, **about, **when, "evidence": json.dumps({"lost_s": round(lost_s, 3)})}


def _shared_findings(end_ns: int) -> list[dict[str, object]]:
    """Return findings about switches, links and exporters, without a job."""
    nobody = SampleJob("", "", 0, 1, 1.0)
    begun_ns = end_ns - 25 * _MINUTE_S * _SECOND_NS
    slow = {"subject_type": "switch", "status": "open", "observed": 5.5e9, "expected": 1e10, "slowdown": 0.08}
    slow["incident_id"] = "leaf-0-5-slow"
    slow["summary"] = "Switch leaf-0-5 moves its bytes at 55 % of the speed of its peers: look at its uplinks"
    busy = {"subject_type": "link", "severity": "info", "observed": 1.6e10, "expected": 1e10}
    busy["summary"] = "Spine spine-2 carries 60 % more than its peers"
    late = {"subject_type": "exporter", "status": "open", "severity": "info", "observed": 25.0}
    late["incident_id"] = "leaf-0-1-late"
    late["summary"] = "Records of leaf-0-1 come 25 s later than those of the others"
    soon_ns = end_ns - 600 * _SECOND_NS
    return [
        _finding(nobody, "slow_switch", "leaf-0-5", (0, 0), (begun_ns, end_ns), **slow),
        _finding(nobody, "congestion", "leaf-0-1->spine-2", (0, 0), (begun_ns, soon_ns), **busy),
        _finding(nobody, "telemetry", "leaf-0-1", (0, 0), (begun_ns, end_ns), **late),
    ]


def _span(store: Store, job_id: str, first: int, last: int) -> tuple[int, int]:
    """Return the start of step `first` and the end of `last`, nanoseconds since the epoch."""
    spans = store.rows(statement("steps_span"), {"job_id": job_id, "first": first, "last": last})
    return spans[0][0], spans[0][1]


def _pairs(store: Store, job_id: str, nic: str) -> list[str]:
    """Return the pairs of an endpoint by name, those on which it sends first."""
    pairs = store.rows(statement("pairs_of_endpoint"), {"job_id": job_id, "endpoint": nic})
    return [f"{src}->{dst}" for src, dst in pairs]


def _make(store: Store, name: str, parameters: dict[str, object]) -> None:
    """Run one statement of the folder sql, with those of the parameters that it names."""
    text = statement(name)
    store.command(text, {key: value for key, value in parameters.items() if f"{{{key}:" in text}, settings=_SETTINGS)

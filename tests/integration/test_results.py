"""Results by revision: what was published last counts, what was not published is seen by nobody."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from prism_ch.errors import StoreError
from prism_ch.model.columns import ragged
from prism_ch.model.finding import Baseline, Finding, FindingKind
from prism_ch.model.incident import Incident, JobCost
from prism_ch.model.memory import JobMemory, JobRevision
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import DP, PP, GpuSteps, Group, JobRecord, Members, PackedTimeline, Pairs, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.store import timeline
from prism_ch.store.client import Store
from prism_ch.store.read import live_jobs, read_cluster_findings, read_jobs, read_reaches
from tests.revisions import write_revisions
from tests.sweeps import swept

S = 10**9
T0 = 1_800_000_000 * S + 123_456_789
ALL = ContinueParams(history_steps=10**6)


def loose(*columns: object) -> tuple[Any, ...]:
    """Pass columns whose dtypes the struct they go into will fix."""
    return columns


def topology(addresses: Sequence[str]) -> Topology:
    """Two endpoints a server, all of tenant red."""
    ids = np.arange(len(addresses))
    none = np.zeros(len(addresses), dtype=np.int64)
    servers = tuple(f"server-{number}" for number in range((len(addresses) + 1) // 2))
    server, gpu, zero = loose(ids // 2, ids % 2, none)
    return Topology(tuple(addresses), server, gpu, zero, zero, zero, zero, servers, ("leaf-1",), ("pod-1",), ("red",))


ENDPOINTS = topology(["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"])


def window(number: int) -> Window:
    return Window(T0 + number * 60 * S, T0 + (number + 1) * 60 * S)


def diagnosis(number: int, start_ns: int, **changes: Any) -> Finding:
    finding = Finding(
        diagnosis_id=f"d{number}",
        kind="slow_gpu",
        subject_type="endpoint",
        subject="10.0.0.1",
        first_step=0,
        last_step=1,
        start_ns=start_ns,
        end_ns=start_ns + 30 * S,
        status="open",
        severity="warning",
        observed=3.5,
        expected=3.0,
        score=9.25,
        slowdown=0.125,
        summary='it\'s "slow"\n\t\\',
        evidence={"steps": [1, 2]},
        baseline=Baseline(compute_s={"10.0.0.1": 0.1 + 0.2}, usual_since=7),
    )
    return replace(finding, **changes)


def revision(job_id: str, from_step: int, values: Sequence[float], **changes: Any) -> JobRevision:
    """Make a revision of a job of two endpoints; its steps take two seconds, `values` of them compute."""
    step = np.arange(from_step, from_step + len(values))
    start = T0 + step * 2 * S
    compute = np.asarray(values, dtype=np.float64)
    nothing = np.zeros(len(step))
    ones = np.ones(len(step))
    endpoint = np.repeat([0, 1], len(step))
    both_steps, both_starts, both_values = np.tile(step, 2), np.tile(start, 2), np.tile(compute, 2)
    made = JobRevision(
        job=JobRecord(job_id, "red", "running", T0, T0 + 100 * S, 2, 1, from_step + len(values), 2.0),
        members=Members(*loose([0, 1], [3, 3], [0, 0], [T0, T0 + 1], [T0 + 5, T0 + 6])),
        pairs=Pairs(*loose([0, 1], [1, 0], [DP, PP], [0.5, 1.0], [7, 8], [2**40, 9], [T0, T0], [T0 + 1, T0 + 2])),
        groups=(Group(3, DP, 0, (0, 1)), Group(4, PP, 0, (1, 0))),
        from_step=from_step,
        from_time_ns=T0 + from_step * 2 * S,
        steps=Steps(
            *loose(step, start, start + 2 * S, compute, nothing, 2 - compute, ragged([(0, 1)] * len(step)), ones)
        ),
        gpu_steps=GpuSteps(
            endpoint,
            both_steps,
            both_starts,
            both_starts + 2 * S,
            both_values,
            0 * both_values,
            2 - both_values,
            endpoint,
        ),
        timeline=PackedTimeline(
            endpoint,
            both_steps,
            both_starts,
            np.arange(0, 2 * len(both_steps) + 1, 2),
            np.tile(np.array([0, 2], np.uint8), len(both_steps)),
            np.full(2 * len(both_steps), S),
        ),
    )
    return replace(made, **changes)


def assert_same(found: object, wanted: object) -> None:
    """Compare two structs of arrays, field by field."""
    assert type(found) is type(wanted)
    for each in fields(found):  # type: ignore[arg-type]
        np.testing.assert_array_equal(getattr(found, each.name), getattr(wanted, each.name), err_msg=each.name)


def compute_by_step(store: Store, table: str = "steps") -> dict[tuple[str, int], float]:
    rows = store.rows("SELECT job_id, step, compute_s FROM {table:Identifier} ORDER BY job_id, step", {"table": table})
    return {(job_id, step): value for job_id, step, value in rows}


def test_what_is_written_is_read_back(store: Store) -> None:
    second = diagnosis(2, T0 + S, status="closed", kind="slow_step", severity="critical")
    one = revision("one", 0, [1.0, 1.5, 0.5], findings=(diagnosis(1, T0), second))
    two = revision("two", 0, [0.25])
    write_revisions(store, ENDPOINTS, window(0), 1, [two, one], findings=[diagnosis(3, T0, subject="leaf-1")])
    first, other = read_jobs(store, ENDPOINTS, window(1).start_ns, ALL)
    assert (first.job, other.job) == (one.job, two.job)
    assert first.groups == one.groups
    assert first.findings == one.findings[:1]
    assert_same(first.members, one.members)
    assert_same(first.pairs, one.pairs)
    assert_same(first.steps, one.steps)
    assert_same(first.gpu_steps, one.gpu_steps)
    assert_same(other.steps, two.steps)
    assert read_cluster_findings(store, window(1).start_ns) == [diagnosis(3, T0, subject="leaf-1")]
    assert read_jobs(store, ENDPOINTS, window(0).start_ns, ALL) == []
    assert read_cluster_findings(store, window(0).start_ns) == []


def test_views_show_it_as_the_contract_says(store: Store) -> None:
    found = diagnosis(1, T0)
    write_revisions(store, ENDPOINTS, window(0), 1, [revision("one", 0, [1.0, 1.5], findings=(found,))])
    assert store.rows(
        "SELECT job_id, tenant, status, toUnixTimestamp64Nano(first_seen), endpoints, servers, dp_size, pp_size, steps,"
        " step_s_median FROM jobs"
    ) == [("one", "red", "running", T0, 2, 1, 2, 1, 2, 2.0)]
    assert store.rows("SELECT * EXCEPT (first_seen, last_seen) FROM job_members ORDER BY endpoint") == [
        ("one", "10.0.0.1", "server-0", 0, 3, 0),
        ("one", "10.0.0.2", "server-0", 1, 3, 0),
    ]
    assert store.rows("SELECT * EXCEPT (first_seen, last_seen) FROM pairs ORDER BY src_addr") == [
        ("one", "10.0.0.1", "10.0.0.2", "DP", 0.5, 7, 2**40),
        ("one", "10.0.0.2", "10.0.0.1", "PP", 1.0, 8, 9),
    ]
    assert store.rows("SELECT * FROM groups ORDER BY group_id") == [
        ("one", 3, "DP", 0, ["10.0.0.1", "10.0.0.2"]),
        ("one", 4, "PP", 0, ["10.0.0.2", "10.0.0.1"]),
    ]
    assert store.rows("SELECT * EXCEPT (start_time, end_time), end_time - start_time FROM steps ORDER BY step") == [
        ("one", "red", 0, 2.0, 1.0, 0.0, 1.0, "", ["10.0.0.1", "10.0.0.2"], 1, 2),
        ("one", "red", 1, 2.0, 1.5, 0.0, 0.5, "", ["10.0.0.1", "10.0.0.2"], 1, 2),
    ]
    assert store.rows(
        "SELECT * EXCEPT (start_time, end_time), toUnixTimestamp64Nano(start_time) FROM gpu_steps WHERE step = 1"
        " ORDER BY endpoint"
    ) == [
        ("one", "red", "10.0.0.1", 1, 2.0, 1.5, 0.0, 0.5, 0, None, None, T0 + 2 * S),
        ("one", "red", "10.0.0.2", 1, 2.0, 1.5, 0.0, 0.5, 1, None, None, T0 + 2 * S),
    ]
    assert store.rows(
        "SELECT job_id, step, phase, toUnixTimestamp64Nano(start_time), toUnixTimestamp64Nano(end_time) FROM timeline"
        " WHERE endpoint = '10.0.0.2' ORDER BY start_time LIMIT 3"
    ) == [
        ("one", 0, "compute", T0, T0 + S),
        ("one", 0, "DP", T0 + S, T0 + 2 * S),
        ("one", 1, "compute", T0 + 2 * S, T0 + 3 * S),
    ]
    columns = "kind, subject_type, subject, status, severity, observed, expected, score, slowdown, summary"
    assert store.rows(f"SELECT diagnosis_id, job_id, tenant, {columns}, evidence FROM diagnoses") == [  # noqa: S608
        ("d1", "one", "red", *(getattr(found, name) for name in columns.split(", ")), '{"steps": [1, 2]}')
    ]


def test_nobody_sees_what_was_not_published(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write_revisions(store, ENDPOINTS, window(0), 1, [revision("one", 0, [1.0, 1.0])])
    insert = store.insert

    def killed(table: str, columns: pa.Table, **options: Any) -> None:
        if table == "revisions":
            raise StoreError("killed")
        insert(table, columns, **options)

    unseen = [revision("one", 1, [9.0], findings=(diagnosis(1, T0 + S),)), revision("new", 0, [9.0])]
    with monkeypatch.context() as patch:
        patch.setattr(store, "insert", killed)
        with pytest.raises(StoreError, match="killed"):
            write_revisions(store, ENDPOINTS, window(1), 2, unseen)
    for view in ("steps", "gpu_steps"):
        assert set(compute_by_step(store, view).values()) == {1.0}
    assert store.rows("SELECT job_id FROM jobs") == [("one",)]
    assert store.rows("SELECT * FROM diagnoses") == []
    write_revisions(store, ENDPOINTS, window(1), 3, [revision("one", 1, [5.0])])
    assert compute_by_step(store) == {("one", 0): 1.0, ("one", 1): 5.0}


def test_an_insert_that_is_sent_twice_lands_once(store: Store) -> None:
    for _ in range(2):
        write_revisions(store, ENDPOINTS, window(0), 1, [revision("one", 0, [1.0], findings=(diagnosis(1, T0),))])
    tables = ("jobs", "job_members", "pairs", "groups", "steps", "gpu_steps", "timeline", "diagnoses")
    counts = [store.scalar("SELECT count() FROM {view:Identifier}", {"view": view}) for view in tables]
    assert counts == [1, 2, 2, 2, 1, 2, 4, 1]
    assert store.scalar("SELECT count() FROM revisions") == 2


def test_timelines_in_parts_are_what_they_are_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large window inserts its phases in several statements, each of which lands once however often it is sent."""
    monkeypatch.setattr(timeline, "_MAX_PHASES", 9)
    inserted, insert = [], Store.insert

    def counting(connection: Store, table: str, columns: pa.Table, **options: Any) -> None:
        inserted.extend([len(columns)] * (table == "timeline_log"))
        insert(connection, table, columns, **options)

    monkeypatch.setattr(Store, "insert", counting)
    jobs = [revision(name, 0, [1.0] * steps) for name, steps in (("a", 1), ("b", 1), ("c", 1), ("d", 4), ("e", 1))]
    first, again = (write_revisions(store, ENDPOINTS, window(0), 1, jobs) for _ in range(2))
    assert inserted == [4, 2, 8, 2] * 2
    counted = store.rows("SELECT job_id, count(), min(start_time) FROM timeline GROUP BY job_id ORDER BY job_id")
    assert [row[:2] for row in counted] == [("a", 4), ("b", 4), ("c", 4), ("d", 16), ("e", 4)]
    assert first["timeline_log"] == again["timeline_log"] == sum(inserted) // 2


def live_from(store: Store, number: int) -> list[str]:
    """List jobs whose latest revision is of this window or a later one, and does not withdraw them."""
    return live_jobs(store, read_reaches(store, [], window(number).start_ns))


def test_a_withdrawn_job_is_gone_and_may_come_back(store: Store) -> None:
    write_revisions(store, ENDPOINTS, window(0), 1, [revision("one", 0, [1.0], findings=(diagnosis(1, T0),))])
    assert live_from(store, 0) == ["one"]
    assert live_from(store, 1) == []
    write_revisions(store, ENDPOINTS, window(1), 2, [], withdrawn=["one"])
    for view in ("jobs", "job_members", "pairs", "groups", "steps", "gpu_steps", "timeline", "diagnoses"):
        assert store.scalar("SELECT count() FROM {view:Identifier}", {"view": view}) == 0, view
    assert live_from(store, 0) == []
    assert [memory.job.job_id for memory in read_jobs(store, ENDPOINTS, window(1).start_ns, ALL)] == ["one"]
    assert read_jobs(store, ENDPOINTS, window(2).start_ns, ALL) == []
    write_revisions(store, ENDPOINTS, window(2), 3, [revision("one", 0, [2.0])])
    assert compute_by_step(store) == {("one", 0): 2.0}
    assert live_from(store, 2) == ["one"]


def test_a_job_twice_in_one_window_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="more than one revision"):
        write_revisions(store, ENDPOINTS, window(0), 1, [revision("one", 0, [1.0])], withdrawn=["one"])


def test_endpoints_the_topology_no_longer_knows_are_left_out(store: Store) -> None:
    write_revisions(store, ENDPOINTS, window(0), 1, [revision("one", 0, [1.0, 1.5], findings=(diagnosis(1, T0),))])
    fewer = topology(["10.0.0.0", "10.0.0.2"])
    [memory] = read_jobs(store, fewer, window(1).start_ns, ALL)
    assert memory.members.endpoint.tolist() == [1]
    assert len(memory.pairs) == 0
    assert [group.members for group in memory.groups] == [(1,), (1,)]
    assert memory.steps.slowest.tolist() == [(1,), (1,)]
    assert memory.gpu_steps.endpoint.tolist() == [1, 1]
    assert len(memory.findings) == 1


def test_some_of_the_steps_before_the_newest_are_read_as_well(store: Store) -> None:
    long, brief = revision("one", 0, [0.0] * 40), revision("two", 0, [0.0] * 4)
    write_revisions(store, ENDPOINTS, window(0), 1, [long, brief])
    few = ContinueParams(history_steps=8, remembered_s=40)
    one, two = read_jobs(store, ENDPOINTS, window(1).start_ns, few)
    assert one.steps.step.tolist() == list(range(32, 40))
    assert one.baseline_steps.step.tolist() == [12, 16, 20, 24, 28]  # of the last 20 steps of 2 s each
    assert one.gpu_steps.step.min() == 32
    assert (two.steps.step.tolist(), len(two.baseline_steps)) == ([0, 1, 2, 3], 0)


def test_only_the_newest_steps_of_each_job_are_read(store: Store) -> None:
    jobs = [revision("one", 0, [0.0, 1.0, 2.0]), revision("two", 0, [0.5])]
    write_revisions(store, ENDPOINTS, window(0), 1, jobs)
    few = ContinueParams(history_steps=2)
    one, two = read_jobs(store, ENDPOINTS, window(1).start_ns, few)
    assert one.steps.step.tolist() == [1, 2]
    assert one.gpu_steps.step.tolist() == [1, 2, 1, 2]
    assert two.steps.step.tolist() == [0]
    assert read_jobs(store, ENDPOINTS, window(1).start_ns, few, seen_since_ns=one.job.last_seen_ns + 1) == []


def test_a_negative_count_is_refused(store: Store) -> None:
    wrong = replace(revision("one", 0, []), members=Members(*loose([0], [-1], [0], [T0], [T0])))
    with pytest.raises(ValueError, match="-1"):
        write_revisions(store, ENDPOINTS, window(0), 1, [wrong])


@dataclass
class Published:
    """One published revision of a job, as the slow model below remembers it."""

    window: int
    from_step: int
    from_time_ns: int
    steps: dict[int, float]
    findings: dict[str, Finding]


def replay(history: list[Published]) -> tuple[dict[int, float], dict[str, Finding]]:
    """Apply revisions one after another: each cuts off from its first step and time on, then adds its own."""
    steps: dict[int, float] = {}
    findings: dict[str, Finding] = {}
    for item in history:
        steps = {step: value for step, value in steps.items() if step < item.from_step} | item.steps
        kept = {name: finding for name, finding in findings.items() if finding.start_ns < item.from_time_ns}
        findings = kept | item.findings
    return steps, findings


def random_history(
    rng: np.random.Generator, job_ids: Sequence[str], workings: int
) -> list[tuple[int, dict[str, Published]]]:
    """Make workings of windows that go on, or back to an earlier window, with random revisions of some of the jobs."""
    history = []
    at = 0
    for _ in range(workings):
        at = int(rng.integers(0, at + 1)) if rng.random() < 0.25 else at + 1
        jobs = {}
        for job_id in job_ids:
            if rng.random() < 0.3:
                continue
            from_step = int(rng.integers(0, 12))
            steps = {from_step + i: float(rng.integers(0, 1000)) for i in range(int(rng.integers(0, 5)))}
            numbers = rng.choice(6, size=int(rng.integers(0, 4)), replace=False)
            statuses = rng.choice(["open", "closed"], size=6)
            findings = {
                f"d{job_id}{n}": diagnosis(0, T0 + int(n) * S, diagnosis_id=f"d{job_id}{n}", status=str(statuses[n]))
                for n in numbers
            }
            jobs[job_id] = Published(at, from_step, T0 + int(rng.integers(0, 7)) * S, steps, findings)
        history.append((at, jobs))
    return history


@pytest.mark.parametrize("seed", [1, *swept(2, 3)])
def test_views_and_states_equal_a_replay_of_all_revisions(store: Store, seed: int) -> None:
    rng = np.random.default_rng(seed)
    job_ids = ["a", "b", "c"]
    published: dict[str, list[Published]] = {job_id: [] for job_id in job_ids}
    for number, (at, jobs) in enumerate(random_history(rng, job_ids, 12), start=1):
        revisions = []
        for job_id, item in jobs.items():
            made = revision(job_id, item.from_step, list(item.steps.values()), findings=tuple(item.findings.values()))
            revisions.append(replace(made, from_time_ns=item.from_time_ns))
            published[job_id].append(item)
        write_revisions(store, ENDPOINTS, window(at), number, revisions)
    live = {job_id: replay(items) for job_id, items in published.items()}
    wanted = {(job_id, step): value for job_id, (steps, _) in live.items() for step, value in sorted(steps.items())}
    assert compute_by_step(store) == compute_by_step(store, "gpu_steps") == wanted
    phases = store.rows("SELECT job_id, step, count() FROM timeline GROUP BY job_id, step")
    assert {(job_id, step): count for job_id, step, count in phases} == dict.fromkeys(wanted, 4)
    statuses = dict(store.rows("SELECT diagnosis_id, status FROM diagnoses"))
    assert statuses == {name: f.status for _, findings in live.values() for name, f in findings.items()}
    for before in range(int(rng.integers(1, 3)), 12, 3):
        memories = {memory.job.job_id: memory for memory in read_jobs(store, ENDPOINTS, window(before).start_ns, ALL)}
        assert_states_equal_replay(memories, published, before)


def assert_states_equal_replay(
    memories: dict[str, JobMemory], published: dict[str, list[Published]], before: int
) -> None:
    """Compare states with a replay of the revisions of windows before one."""
    earlier = {job_id: [item for item in items if item.window < before] for job_id, items in published.items()}
    assert sorted(memories) == [job_id for job_id, items in earlier.items() if items]
    for job_id, memory in memories.items():
        steps, findings = replay(earlier[job_id])
        assert dict(zip(memory.steps.step.tolist(), memory.steps.compute_s.tolist(), strict=True)) == steps
        assert sorted(memory.gpu_steps.step.tolist()) == sorted([*steps, *steps])
        assert {f.diagnosis_id for f in memory.findings} == {
            f.diagnosis_id for f in findings.values() if f.status == "open"
        }


def test_diagnosed_steps_and_tenants(store: Store) -> None:
    slow = diagnosis(1, T0, first_step=1, last_step=2, slowdown=0.5, status="closed")
    known = diagnosis(2, T0, first_step=2, last_step=2, kind="slow_step", severity="critical", evidence={"lost_s": 1.5})
    blind = diagnosis(3, T0, first_step=0, last_step=3, kind="telemetry", severity="info", summary="coarse")
    made = revision("one", 0, [1.0] * 4, findings=(slow, known, blind))
    one = replace(made, job=replace(made.job, step_s_median=1.25))
    other = replace(
        revision("two", 0, [1.0]), job=replace(revision("two", 0, [1.0]).job, tenant="blue", status="ended")
    )
    write_revisions(store, ENDPOINTS, window(0), 1, [one, other])
    assert store.rows(
        "SELECT step, findings, severity, kinds, diagnosis_ids FROM diagnosed_steps WHERE job_id = 'one' ORDER BY step"
    ) == [
        (0, 1, "info", ["telemetry"], ["d3"]),
        (1, 2, "warning", ["slow_gpu", "telemetry"], ["d1", "d3"]),
        (2, 3, "critical", ["slow_step", "slow_gpu", "telemetry"], ["d2", "d1", "d3"]),
        (3, 1, "info", ["telemetry"], ["d3"]),
    ]
    assert store.rows("SELECT findings, severity, kinds, summaries FROM diagnosed_steps WHERE job_id = 'two'") == [
        (0, "", [], [])
    ]
    assert store.rows(
        "SELECT * REPLACE (round(gpu_hours * 3600, 9) AS gpu_hours, round(gpu_hours_lost * 3600, 9) AS gpu_hours_lost)"
        " FROM tenant_summary ORDER BY tenant"
    ) == [
        ("blue", 1, 0, 0, 1, 4.0, 0.0, 0, 0, ""),
        ("red", 1, 1, 2, 4, 16.0, 0.0, 3, 2, "critical"),
    ]


def incident(number: int, kind: FindingKind, *costs: JobCost) -> Incident:
    """Make an incident that lasts from 5 to 50 s and cost jobs what is given."""
    until = (T0, T0 + 5 * S, T0 + 50 * S)
    return Incident(
        f"i-{number}", kind, "server", "server-0", (), 0.5, *until, "open", "warning", "slow", "look", costs
    )


LOSSES = (
    "SELECT job_id, cause, findings, lost_s, round(gpu_hours_lost * 3600, 9), interruptions, gap_s, members_before,"
    " members_after FROM losses ORDER BY job_id, cause"
)


def test_a_job_lost_what_its_incidents_cost_it(store: Store) -> None:
    gpu = incident(1, "slow_gpu", JobCost("one", "red", 2, 10.5, 60.0))
    again = incident(2, "slow_gpu", JobCost("one", "red", 2, 0.25, 30.0))
    shared = incident(3, "slow_switch", JobCost("one", "red", 2, 30.0, 60.0), JobCost("two", "red", 2, 15.0, 60.0))
    nothing = incident(4, "telemetry", JobCost("one", "red", 2))
    slow = diagnosis(1, T0, first_step=1, last_step=4)
    late = diagnosis(2, T0, kind="slow_step", first_step=2, last_step=3)
    shape = diagnosis(3, T0, kind="imbalance")
    one, two = revision("one", 0, [1.0] * 6, findings=(slow, late, shape)), revision("two", 0, [1.0])
    write_revisions(store, ENDPOINTS, window(0), 1, [one, two], incidents=(gpu, again, shared, nothing))
    assert store.rows(LOSSES) == [
        ("one", "slow_step", 1, 0.0, 0.0, 0, 0.0, 0, 0),
        ("one", "slow_switch", 0, 30.0, 60.0, 0, 0.0, 0, 0),
        ("one", "slow_gpu", 1, 10.75, 21.5, 0, 0.0, 0, 0),
        ("two", "slow_switch", 0, 15.0, 30.0, 0, 0.0, 0, 0),
    ]
    assert store.scalar("SELECT round(gpu_hours_lost * 3600, 9) FROM tenant_summary") == 111.5
    assert store.scalar("SELECT round(sum(lost_gpu_h) * 3600, 9) FROM incidents") == 111.5
    spans = "SELECT DISTINCT toUnixTimestamp64Nano(first_time), toUnixTimestamp64Nano(last_time) FROM losses"
    assert store.rows(f"{spans} WHERE findings = 0") == [(T0 + 5 * S, T0 + 50 * S)]
    assert store.rows(f"{spans} WHERE findings > 0") == [(T0, T0 + 30 * S)]


def test_stops_of_a_job_are_counted_and_measured(store: Store) -> None:
    stall = diagnosis(1, T0, kind="stall", first_step=2, last_step=2, end_ns=T0 + 6 * S)
    members = {"members_before": 8, "members_after": 6}
    restart = diagnosis(2, T0, kind="restart", first_step=3, last_step=3, end_ns=T0 + 8 * S, evidence=members)
    costs = (incident(1, "stall", JobCost("one", "red", 2, 5.0)), incident(2, "restart", JobCost("one", "red", 2, 7.0)))
    made = revision("one", 0, [1.0] * 4, findings=(stall, restart))
    write_revisions(store, ENDPOINTS, window(0), 1, [made], incidents=costs)
    assert store.rows(LOSSES) == [
        ("one", "stall", 1, 5.0, 10.0, 1, 6.0, 0, 0),
        ("one", "restart", 1, 7.0, 14.0, 1, 8.0, 8, 6),
    ]


def spans_of_time(store: Store, since_s: int, until_s: int) -> list[tuple[Any, ...]]:
    """Return job, cause, and GPU-seconds had and lost in a span that begins and ends so long after T0."""
    since, until = (f"{datetime.fromtimestamp(T0 // S + at, UTC):%F %T}" for at in (since_s, until_s))
    return store.rows(
        "SELECT job_id, cause, round(sum(gpu_s), 6), round(sum(lost_gpu_s), 6)"  # noqa: S608 - of this test
        f" FROM gpu_time(from_time = '{since}', to_time = '{until}') GROUP BY ALL ORDER BY ALL"
    )


def test_gpu_time_is_what_jobs_had_and_what_incidents_cost(store: Store) -> None:
    gpu = incident(1, "slow_gpu", JobCost("one", "red", 2, 9.0, 45.0))
    shared = incident(2, "slow_switch", JobCost("one", "red", 2, 4.5), JobCost("two", "red", 2, 0.9))
    jobs = [revision("one", 0, [1.0] * 6), revision("two", 0, [1.0])]  # seen for 100 s
    write_revisions(store, ENDPOINTS, window(0), 1, jobs, incidents=(gpu, shared))
    assert spans_of_time(store, -3600, 3600) == [
        ("one", "", 200 - 27, 0.0),
        ("one", "slow_gpu", 18.0, 18.0),
        ("one", "slow_switch", 9.0, 9.0),
        ("two", "", 200 - 1.8, 0.0),
        ("two", "slow_switch", 1.8, 1.8),
    ]
    parts = [spans_of_time(store, begin, begin + 10) for begin in range(-10, 120, 10)]
    for job in ("one", "two"):
        assert sum(row[2] for part in parts for row in part if row[0] == job) == pytest.approx(200)
    lost = [sum(row[3] for row in part) for part in parts]
    assert sum(lost) == pytest.approx(28.8)
    assert lost[3] == pytest.approx(28.8 * 10 / 45)  # evenly, from 5 to 50 s
    assert lost[0] == lost[-1] == 0


def test_time_of_a_job_that_stands_still_goes_on(store: Store) -> None:
    hang = replace(incident(1, "hang", JobCost("one", "red", 2, 160.0)), start_ns=T0 + 100 * S, end_ns=T0 + 260 * S)
    write_revisions(store, ENDPOINTS, window(0), 1, [revision("one", 0, [1.0])], incidents=(hang,))
    assert spans_of_time(store, -3600, 3600) == [("one", "", 200.0, 0.0), ("one", "hang", 320.0, 320.0)]


def test_a_summary_reads_the_steps_once(store: Store) -> None:
    write_revisions(store, ENDPOINTS, window(0), 1, [revision("one", 0, [1.0] * 4)])
    plan = [line for (line,) in store.rows("EXPLAIN SELECT * FROM tenant_summary")]
    assert len([line for line in plan if "ReadFromMergeTree" in line and "steps_log" in line]) == 1

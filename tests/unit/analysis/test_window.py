"""The analysis as a whole: windows worked one after the other say what one look at everything would say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.accuracy.faults.stream import read_flows, read_topology
from prism_ch.analysis.observe.known_jobs import KnownJobs
from prism_ch.analysis.observe.observe import WindowFlows
from prism_ch.analysis.window import analyse_window
from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_span import ReadFlows
from prism_ch.model.memory import WindowMemory, WindowRevision
from prism_ch.model.result import DP, OTHER, PAIR_KINDS, PP
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.simulate import generate
from prism_ch.simulate.families import FAMILIES
from prism_ch.simulate.job import Fault
from tests.sweeps import swept
from tests.unit.analysis.build import (
    BEGIN_NS,
    MB,
    MS,
    TCP,
    Flow,
    batch,
    buckets,
    every,
    job,
    pipeline,
    renamed,
    ring,
    shaken,
    shifted,
    topology,
)
from tests.unit.chain import PARAMS, Published, Results, work
from tests.unit.recorded import Run, recorded

SECOND = 10**9
RUNS = ("dp4_clean", "ppdp4_overlap", "dp4_slow_rank")
WINDOWS_S = (60, 30, 10)


def groups(found: Published, where: Topology, kind: int) -> list[tuple[str, ...]]:
    """The members of each group of a kind, by address."""
    return [tuple(where.endpoints[e] for e in group.members) for group in found.last.groups if group.kind == kind]


def pairs(found: Published, where: Topology, kind: str) -> frozenset[frozenset[str]]:
    """The pairs of a kind, by address, either way."""
    rows = found.last.pairs
    mine = rows.take(rows.kind == PAIR_KINDS.index(kind))
    return frozenset(
        frozenset((where.endpoints[a], where.endpoints[b])) for a, b in zip(mine.src, mine.dst, strict=True)
    )


def findings(found: Published) -> list[Finding]:
    """The findings on a job that say more than `info`, of a symptom and its cause the slow steps."""
    said = [one for one in found.findings.values() if one.severity != "info"]
    slow = {one.incident_id for one in said if one.kind == "slow_step"}
    kept = (one for one in said if one.kind == "slow_step" or one.incident_id not in slow)
    return sorted(kept, key=lambda one: one.start_ns)


def assert_steps_tile(found: Published) -> None:
    """Steps follow on one another, for the job and on every endpoint, and phases fill them."""
    steps, gpu, phases = found.steps, found.gpu_steps, found.timeline
    assert steps.step.tolist() == list(range(len(steps)))
    np.testing.assert_array_equal(steps.start_ns[1:], steps.end_ns[:-1])
    assert (steps.end_ns > steps.start_ns).all()
    for endpoint in found.last.members.endpoint:
        mine = gpu.take(gpu.endpoint == endpoint)
        assert mine.step.tolist() == steps.step.tolist()
        np.testing.assert_array_equal(mine.start_ns[1:], mine.end_ns[:-1])
        part = phases.take(phases.endpoint == endpoint)
        assert (part.start_ns[0], part.end_ns[-1]) == (mine.start_ns[0], mine.end_ns[-1])
        np.testing.assert_array_equal(part.start_ns[1:], part.end_ns[:-1])
        spent_s = np.bincount(part.step, weights=(part.end_ns - part.start_ns) / 1e9)
        np.testing.assert_allclose(spent_s, mine.compute_s + mine.pp_s + mine.dp_s, atol=1e-9)
        np.testing.assert_allclose(spent_s, mine.duration_s, atol=1e-9)


class TestRecordedRuns:
    @pytest.fixture(params=RUNS)
    def run(self, request: pytest.FixtureRequest) -> Run:
        return recorded(request.param)

    def test_jobs_groups_pairs_and_steps_are_those_that_trained(self, run: Run) -> None:
        found = work(run.flows, run.topology, 60).only
        assert len(found.last.members) == 4
        assert {frozenset(group) for group in groups(found, run.topology, DP)} == run.dp_groups
        assert set(groups(found, run.topology, PP)) == run.pp_chains
        assert {kind: pairs(found, run.topology, kind) for kind in ("DP", "PP")} == run.pairs
        assert_steps_tile(found)
        distance_ns = np.abs(found.steps.end_ns[:, None] - run.step_end_ns[None, :])
        assert (distance_ns.min(axis=0) < 60 * MS).sum() >= 68
        assert (distance_ns.min(axis=1) >= 60 * MS).sum() <= 1

    @pytest.mark.parametrize("window_s", [10, *swept(30, 3)])
    def test_how_long_windows_are_changes_nothing(self, run: Run, window_s: int) -> None:
        one, other = (work(run.flows, run.topology, width).only for width in (60, window_s))
        np.testing.assert_array_equal(one.steps.end_ns, other.steps.end_ns)
        np.testing.assert_array_equal(one.gpu_steps.end_ns, other.gpu_steps.end_ns)
        np.testing.assert_array_equal(one.last.pairs.kind, other.last.pairs.kind)
        np.testing.assert_array_equal(one.last.pairs.flows, other.last.pairs.flows)
        assert [(f.kind, f.first_step, f.last_step) for f in findings(one)] == [
            (f.kind, f.first_step, f.last_step) for f in findings(other)
        ]
        assert_steps_tile(other)

    def test_every_flow_between_members_is_counted_once(self, run: Run) -> None:
        for window_s in WINDOWS_S:
            counted = work(run.flows, run.topology, window_s).only.last.pairs
            assert (int(counted.flows.sum()), int(counted.bytes.sum())) == (len(run.flows), int(run.flows.bytes.sum()))

    @pytest.mark.parametrize("name", ["dp4_clean", "ppdp4_overlap"])
    def test_healthy_runs_have_no_findings(self, name: str) -> None:
        run = recorded(name)
        assert findings(work(run.flows, run.topology, 60).only) == []

    def test_slow_rank_is_named_and_busy_machine_is_nobodys(self) -> None:
        run = recorded("dp4_slow_rank")
        found = work(run.flows, run.topology, 60).only
        (slow_rank,) = findings(found)
        (busy_machine,) = [one for one in found.findings.values() if one.severity == "info" and one.first_step > 50]
        assert (slow_rank.first_step, slow_rank.last_step) == (30, 45)
        assert "waited for 10.66.0.13" in slow_rank.summary
        assert 58 <= busy_machine.first_step <= 60
        assert busy_machine.last_step >= 68
        assert "all ranks work longer alike" in busy_machine.summary


def slow_rank(slow_steps: Sequence[int], steps: int, who: int = 2, extra_ms: float = 400) -> list[Flow]:
    """A ring of four whose steps take a second; in some of them one member makes the others wait."""
    flows, end = [], 0.0
    for step in range(steps):
        late = extra_ms if step in slow_steps else 0
        end += 1000 + late
        for src, dst in ((0, 1), (1, 2), (2, 3), (3, 0)):
            waits = late if who not in (src, dst) else 0
            flows.append(Flow(src, dst, end - 60 - waits, 60 + waits))
    return shaken(flows, 3, ms=0.5)


class TestFindingsOverWindows:
    @pytest.mark.parametrize("window_s", WINDOWS_S)
    def test_slow_rank_is_one_finding_from_opening_to_close(self, window_s: int) -> None:
        flows = batch(slow_rank(range(114, 124), 140))
        (one,) = findings(work(flows, topology(4), window_s).only)
        assert (one.first_step, one.last_step, one.status) == (114, 123, "closed")
        assert "waited for 10.0.102.0 (host-02, GPU 0), last to be ready in 10 of 10" in one.summary
        (opened,) = findings(work(flows, topology(4), window_s, until_ns=BEGIN_NS + 120 * SECOND).only)
        assert opened.diagnosis_id == one.diagnosis_id
        assert opened.status == "open"

    @pytest.mark.parametrize("window_s", WINDOWS_S)
    def test_two_episodes_are_two_findings(self, window_s: int) -> None:
        slow = [*range(80, 90), *range(110, 120)]
        found = findings(work(batch(slow_rank(slow, 140)), topology(4), window_s).only)
        assert [(one.first_step, one.last_step, one.status) for one in found] == [
            (80, 89, "closed"),
            (110, 119, "closed"),
        ]

    @pytest.mark.parametrize("window_s", [min(WINDOWS_S), *swept(max(WINDOWS_S))])
    def test_slow_group_is_one_finding_in_windows_of_few_steps(self, window_s: int) -> None:
        grid = [[2 * stage, 2 * stage + 1] for stage in range(5)]
        flows = job(grid, 100, 4000)
        slow = [
            replace(flow, start_ms=flow.start_ms - 40, length_ms=80)
            if {flow.src, flow.dst} == {4, 5} and 70 <= flow.start_ms // 4000 < 90
            else flow
            for flow in flows
        ]
        results = work(batch(shaken(slow, 1, ms=0.2)), topology(10), window_s)
        (one,) = results.only.findings.values()
        assert (one.kind, one.subject) == ("slow_link", "10.0.104.0->10.0.105.0")  # all that the group has
        assert (one.first_step, one.last_step, one.status) == (70, 89, "closed")

    def test_a_slow_switch_opens_and_closes(self) -> None:
        where = topology(16, leaves=("a", "b", "c", "d"))
        flows = [
            replace(flow, length_ms=3 * flow.length_ms)
            if (flow.src % 4 == flow.dst % 4 == 1 or flow.length_ms > 10) and 60_000 <= flow.start_ms < 120_000
            else flow
            for flow in job([list(range(8)), list(range(8, 16))], 180)
        ]
        results = work(batch(shaken(flows, 1, ms=0.2)), where, 60)
        (one,) = results.cluster.values()
        assert (one.subject, one.status) == ("b", "closed")
        assert (one.start_ns, one.end_ns) == pytest.approx(
            (BEGIN_NS + 60 * SECOND, BEGIN_NS + 120 * SECOND), abs=SECOND
        )


class TestJobsOverWindows:
    @pytest.mark.parametrize("window_s", [max(WINDOWS_S), *swept(min(WINDOWS_S))])
    def test_parts_seen_before_joining_gradients_are_no_jobs(self, window_s: int) -> None:
        grid = [[2 * stage, 2 * stage + 1] for stage in range(3)]
        found = work(batch(shaken(job(grid, 30, 5000, microbatches=8), 1)), topology(6), window_s).only
        assert found.last.members.endpoint.tolist() == list(range(6))
        assert len(found.steps) == 30
        assert_steps_tile(found)

    def test_job_stays_whole_when_a_window_holds_part_of_it(self) -> None:
        # The last window holds the very end of the last reduction, of two of the stages only.
        grid = [[2 * stage, 2 * stage + 1] for stage in range(3)]
        flows = [
            replace(
                flow, length_ms=flow.length_ms + 1 if flow.src < 4 and flow.start_ms > 79_900 else flow.length_ms - 1
            )
            for flow in job(grid, 80)
        ]
        found = work(batch(flows), topology(6), 10).only
        assert found.last.members.endpoint.tolist() == list(range(6))
        assert len(found.steps) == 80
        assert_steps_tile(found)

    def test_a_replaced_server_changes_the_members_and_nothing_else(self) -> None:
        before = ring([0, 1, 2, 3], every(1000, 100, 1000))
        after = ring([0, 1, 4, 3], every(1000, 60, 121_000))
        results = work(batch(shaken(before + after, 1)), topology(5), 10)
        found = results.only
        assert len(found.steps) == 160
        assert pairs(found, topology(5), "DP") >= {frozenset(("10.0.101.0", "10.0.104.0"))}
        assert (1, 4) in set(zip(found.last.pairs.src.tolist(), found.last.pairs.dst.tolist(), strict=True))
        assert groups(found, topology(5), DP) == [
            ("10.0.100.0", "10.0.101.0", "10.0.102.0", "10.0.103.0"),
            ("10.0.100.0", "10.0.101.0", "10.0.103.0", "10.0.104.0"),
        ]

    @pytest.mark.parametrize("until_s, status", [(60, "stalled"), (600, "stalled"), (780, "ended")])
    def test_a_job_that_falls_silent_is_stalled_and_then_ended(self, until_s: int, status: str) -> None:
        flows = batch(ring([0, 1], every(1000, 50, 1000)) + ring([2, 3], every(5000, 200, 700)))
        results = work(flows, topology(4), 60, until_ns=BEGIN_NS + until_s * SECOND)
        (silent,) = [one for one in results.jobs.values() if one.last.members.endpoint.tolist() == [0, 1]]
        assert silent.last.job.status == status
        assert len(silent.steps) == 50

    def test_a_job_that_wakes_up_again_runs_again(self) -> None:
        flows = ring([0, 1], [*every(1000, 80, 1000), *every(1000, 40, 201_000)]) + ring([2, 3], every(700, 340, 700))
        results = work(batch(flows), topology(4), 30)
        assert sorted(one.last.job.status for one in results.jobs.values()) == ["running", "running"]

    @pytest.mark.parametrize("window_s", [60, 10])
    def test_tenants_on_shared_servers_have_jobs_of_their_own(self, window_s: int) -> None:
        where = topology(2, gpus=2)
        shared = replace(where, tenant=np.array([0, 1, 0, 1], np.int32), tenant_names=("acme", "initech"))
        flows = ring([0, 2], every(1000, 90, 1000)) + ring([1, 3], every(1000, 90, 1000))
        results = work(batch(shaken(flows, 1)), shared, window_s)
        assert {one.last.job.tenant: len(one.steps) for one in results.jobs.values()} == {"acme": 90, "initech": 90}

    @pytest.mark.parametrize("window_s", [60, 10])
    def test_jobs_of_one_tenant_on_the_same_servers_stay_apart(self, window_s: int) -> None:
        flows = ring([0, 2, 4], every(1000, 180)) + ring([1, 3, 5], every(730, 246))
        results = work(batch(shaken(flows, 1)), topology(3, gpus=2), window_s)
        assert sorted(len(one.steps) for one in results.jobs.values()) == [180, 246]
        assert all(one.last.job.status == "running" for one in results.jobs.values())


class TestFlowsThatWereRead:
    """What a window read is kept for the next one."""

    @pytest.mark.parametrize("count", [40, 120], ids=["young", "settled"])
    def test_each_flow_of_a_job_is_read_once(self, count: int) -> None:
        flows = batch(shaken(ring([0, 2, 4], every(1000, count)), 1))
        assert work(flows, topology(3, gpus=2), 10).rows_read == len(flows)


def look(shown: Sequence[Flow] | FlowBatch, where: Topology) -> WindowRevision:
    """Analyse everything in one window, nothing being known before."""
    seen = shown if isinstance(shown, FlowBatch) else batch(shown)
    window = Window(BEGIN_NS - 3600 * SECOND, int(seen.end_ns.max(initial=BEGIN_NS)) + 1)
    known = KnownJobs.of(WindowMemory(), window, seen, where, PARAMS.going_on)
    flows = WindowFlows(window, ReadFlows(flows=seen), ExporterHistory.empty(), known)
    revision, _ = analyse_window(flows, WindowMemory(), where, PARAMS)
    return revision


class TestWaitingForOneRank:
    """Sharded data parallelism on two servers, whose ranks all wait for one from the middle of a recording on."""

    @pytest.mark.parametrize("seed", [1, *swept(5)])
    def test_steps_stay_what_they_were_and_no_link_is_accused(self, seed: int) -> None:
        scenario = FAMILIES["zero3"](seed, servers=2)
        step_s = scenario.duration_s / 50
        slow = Fault(kind="slow_gpu", gpu=5, factor=1.3, start_s=24 * step_s, end_s=50 * step_s)
        made = generate(replace(scenario, duration_s=48 * step_s, phases=False, faults=(slow,)))
        where = read_topology(made.topology)
        found = work(read_flows(made.flows, where), where, 20).only
        ended_ns = np.array([step["end_ns"] for step in made.truth["steps"].to_pylist()])
        whole = np.count_nonzero(ended_ns > made.summary["window_start_ns"])
        assert whole - 1 <= len(found.steps) <= whole
        [slow_steps] = findings(found)
        assert (slow_steps.kind, slow_steps.severity) == ("slow_step", "critical")
        # Each rank exchanges with the one on its rail alone: they are late together.
        assert slow_steps.evidence["last_ready_any_of"] == ["10.21.0.1", "10.21.0.2"]
        assert slow_steps.cause is not None
        assert slow_steps.cause.kind == "slow_gpu"


@pytest.mark.parametrize("family, seed", [("zero2", 7000), ("zero3", 1)])
def test_shards_of_a_settled_job_close_steps_as_before(family: str, seed: int) -> None:
    scenario = FAMILIES[family](seed)
    made = generate(replace(scenario, duration_s=1.7 * scenario.duration_s, phases=False))
    where = read_topology(made.topology)
    found = work(read_flows(made.flows, where), where, 20).only
    assert len(found.steps) > PARAMS.going_on.settled_steps + 16
    true_ns = np.sort(np.array([step["end_ns"] for step in made.truth["steps"].to_pylist()]))
    off_ns = np.abs(found.steps.end_ns[:, None] - true_ns[None, :]).min(axis=1)
    assert off_ns.max() < 0.01 * np.median(np.diff(true_ns))


class TestOneLook:
    GRID = ((0, 1), (2, 3), (4, 5))
    FLOWS = tuple(shaken(job(GRID, 16), 1))

    def test_the_same_flows_seen_by_several_exporters_say_the_same(self) -> None:
        again = [
            replace(flow, exporter=name, size=flow.size + n) for flow in self.FLOWS for n, name in enumerate("abc")
        ]
        (once,), (thrice,) = (look(flows, topology(6)).jobs for flows in (self.FLOWS, again))
        np.testing.assert_array_equal(once.steps.end_ns, thrice.steps.end_ns)
        np.testing.assert_array_equal(once.timeline.length_ns, thrice.timeline.length_ns)
        np.testing.assert_array_equal(once.pairs.flows, thrice.pairs.flows)

    @settings(max_examples=10, deadline=None)
    @given(st.permutations(range(6)), st.integers(0, 10**7))
    def test_other_names_and_times_give_the_same_results_under_them(self, name: list[int], shift_ms: int) -> None:
        (plain,) = look(self.FLOWS, topology(6)).jobs
        (other,) = look(shifted(renamed(self.FLOWS, name), shift_ms), topology(6)).jobs
        np.testing.assert_array_equal(other.steps.end_ns - shift_ms * MS, plain.steps.end_ns)
        np.testing.assert_array_equal(other.members.pp_stage[name], plain.members.pp_stage)
        members = {(group.kind, frozenset(name[e] for e in group.members)) for group in plain.groups}
        assert {(group.kind, frozenset(group.members)) for group in other.groups} == members

    def test_acknowledgements_and_a_starting_mesh_are_other(self) -> None:
        mesh = [Flow(a, b, -2000 + 10 * a + 60 * b, 2, MB // 10) for a in range(6) for b in range(6) if a != b]
        acknowledgements = [
            Flow(flow.dst, flow.src, flow.start_ms, flow.length_ms, 0, proto=TCP) for flow in self.FLOWS
        ]
        data = [replace(flow, proto=TCP) for flow in self.FLOWS]
        (plain,), (found,) = (look(flows, topology(6)).jobs for flows in (data, [*data, *mesh, *acknowledgements]))
        assert found.groups == plain.groups
        np.testing.assert_array_equal(found.steps.end_ns, plain.steps.end_ns)

    @pytest.mark.parametrize("microbatches", [1, 2, 4, 16])
    @pytest.mark.parametrize("stages", [2, 4])
    def test_a_job_of_pipelines_alone(self, stages: int, microbatches: int) -> None:
        flows = shaken(pipeline(range(stages), every(2500, 20), microbatches=microbatches), 1)
        (found,) = look(flows, topology(stages)).jobs
        assert (found.job.dp_size, found.job.pp_size) == (1, stages)
        assert [(group.kind, group.members) for group in found.groups] == [(PP, tuple(range(stages)))]
        assert found.job.steps == 20
        assert found.job.step_s_median == pytest.approx(2.5, rel=0.01)

    @pytest.mark.parametrize("members", [2, 4])
    def test_a_job_of_collectives_alone(self, members: int) -> None:
        flows = shaken(ring(range(members), every(2500, 20)), 1)
        (found,) = look(flows, topology(members)).jobs
        assert (found.job.dp_size, found.job.pp_size, found.job.steps) == (members, 1, 20)
        assert [(group.kind, group.members) for group in found.groups] == [(DP, tuple(range(members)))]


class TestMergedRecords:
    """Exporters whose idle timeout is longer than a step's pauses."""

    REPLICAS = 3
    STAGES = 3
    WHERE = topology(9, gpus=2)
    #: `GRID[rail][stage][replica]`
    GRID = tuple(
        tuple(tuple(2 * (3 * stage + replica) + rail for replica in range(3)) for stage in range(3))
        for rail in range(2)
    )

    def fine(self, rail: int, first_s: int, until_s: int) -> list[Flow]:
        """A rail's steps of two seconds."""
        count = (until_s - first_s) // 2
        flows = job(self.GRID[rail], count, 2000, first_ms=first_s * 1000)
        return [replace(flow, exporter=f"leaf-{rail}") for flow in flows]

    def coarse(self, rail: int, first_s: int, until_s: int) -> list[Flow]:
        """The same as an exporter reports it that cuts records at a minute, and never else."""
        moved: dict[tuple[int, int, int], int] = {}
        for flow in self.fine(rail, first_s, until_s):
            key = (flow.src, flow.dst, int(flow.start_ms // 60_000))
            moved[key] = moved.get(key, 0) + flow.size
        return [
            Flow(src, dst, 60_000 * minute + src + dst, 60_000, size, f"leaf-{rail}")
            for (src, dst, minute), size in moved.items()
        ]

    def test_a_job_without_steps_is_one_job_with_a_reason(self) -> None:
        flows = [*self.coarse(0, 0, 360), *self.coarse(1, 0, 360)]
        found = work(batch(flows), self.WHERE, 60).only
        assert found.last.members.endpoint.tolist() == list(range(18))
        assert (found.last.job.steps, len(found.steps), found.last.groups) == (0, 0, ())
        rows = found.last.pairs
        assert (rows.kind == OTHER).all()
        assert (rows.confidence < 0.5).all()
        assert [(one.kind, one.subject, one.status) for one in findings(found)] == [
            ("telemetry", "leaf-0", "open"),
            ("telemetry", "leaf-1", "open"),
        ]

    def test_its_flows_are_counted_once_however_long_it_goes_on(self) -> None:
        """... and however little of the past a window looks at."""
        flows = [*self.coarse(0, 0, 480), *self.coarse(1, 0, 480)]
        short = replace(PARAMS, going_on=replace(PARAMS.going_on, newcomer_lookback_s=120))
        rows = work(batch(flows), self.WHERE, 60, short).only.last.pairs
        assert rows.flows.sum() == len(flows)
        assert rows.first_seen_ns.min() == batch(flows).start_ns.min()

    def test_what_one_exporter_shows_of_the_steps_is_told(self) -> None:
        flows = [*self.fine(0, 0, 240), *self.coarse(1, 0, 240)]
        found = work(batch(flows), self.WHERE, 60).only
        assert found.last.members.endpoint.tolist() == list(range(18))
        assert found.last.job.steps == 120
        [one] = findings(found)
        assert (one.kind, one.subject, one.status) == ("telemetry", "leaf-1", "open")
        assert "that other exporters show" in one.summary
        assert one.expected < 2.0

    def test_the_finding_is_closed_once_steps_show(self) -> None:
        flows = [
            *(flow for rail in range(2) for flow in self.coarse(rail, 0, 180)),
            *(flow for rail in range(2) for flow in self.fine(rail, 182, 600)),
        ]
        found = work(batch(flows), self.WHERE, 60).only
        assert {one.status for one in found.findings.values() if one.kind == "telemetry"} == {"closed"}
        assert found.last.job.steps > 150

    def test_storage_and_serving_that_run_on_are_no_job(self) -> None:
        chance = np.random.default_rng(5)
        reads = [Flow(0, 2 * reader, 0, 120_000, 4000 * MB) for reader in range(1, 5)]
        caches = [
            Flow(10 + 2 * a, 14 + 2 * b, 0, 120_000, int(chance.uniform(200, 4000)) * MB)
            for a in range(2)
            for b in range(2)
        ]
        assert work(batch([*reads, *caches]), self.WHERE, 60).jobs == {}


def test_regular_transfers_one_way_are_no_training() -> None:
    """Prefill servers hand equal caches to decoding servers every second."""
    hops = [(0, 4), (1, 5), (2, 6), (3, 7)]
    flows = [Flow(a, b, at + 20 * a, 30, 40 * MB) for at in every(1000, 50) for a, b in hops]
    assert work(batch(flows), topology(4, 2), 60).jobs == {}
    back = [Flow(b, a, at + 500, 30, 40 * MB) for at in every(1000, 50) for a, b in hops]
    assert work(batch([*flows, *back]), topology(4, 2), 60).jobs != {}


class TestDegenerate:
    """Little or odd data: nothing is raised, and nothing invented."""

    @pytest.mark.parametrize(
        "flows",
        [
            [],
            [Flow(0, 1, 0)],
            [Flow(0, 0, at) for at in every(1000, 20)],
            [Flow(a, b, 0) for a in range(4) for b in range(4) if a != b],
            [Flow(0, 1, 0, length_ms=10**8, size=10**15)],
            [Flow(0, 1, at, size=0) for at in every(1000, 20)],
        ],
        ids=["nothing", "one flow", "one endpoint", "all at one instant", "one giant flow", "no payload"],
    )
    def test_there_is_no_job(self, flows: list[Flow]) -> None:
        found = look(flows, topology(4))
        assert (found.jobs, found.findings, found.withdrawn) == ((), (), ())

    @pytest.mark.parametrize("steps", [3, 4, 8])
    def test_a_few_steps_are_a_job_of_no_more_steps_and_no_findings(self, steps: int) -> None:
        (found,) = look(ring([0, 1, 2], every(1000, steps)), topology(3)).jobs
        assert found.job.steps <= steps
        assert found.findings == ()

    def test_a_few_that_go_one_way_only_are_no_job(self) -> None:
        """Caches that are handed on look like steps until there are many; in training, data comes back."""
        one_way = [Flow(src, src + 2, 1000 * place) for place in range(6) for src in (0, 1)]
        assert work(batch(one_way), topology(4), 60).jobs == {}
        assert len(work(batch([*one_way, *renamed(one_way, [2, 3, 0, 1])]), topology(4), 60).jobs) > 0

    def test_flows_of_no_length_make_steps_too(self) -> None:
        (found,) = look(ring([0, 1, 2], every(1000, 20), length_ms=0), topology(3)).jobs
        assert found.job.steps == 20

    def test_a_giant_flow_beside_a_job_changes_nothing_in_it(self) -> None:
        flows = [*ring([0, 1, 2], every(1000, 20)), Flow(3, 4, 0, 20_000, 10**14)]
        (found,) = look(flows, topology(5)).jobs
        assert found.members.endpoint.tolist() == [0, 1, 2]
        assert found.job.steps == 20

    def test_the_results_of_nothing_are_nothing(self) -> None:
        assert Results().jobs == {}


class TestLivesOverWindows:
    """Jobs that are stopped and begun anew, in windows of many lengths: a restart, another job, fewer replicas."""

    GRID = ((0, 1), (2, 3))

    def steps_ms(self, found: Published) -> list[int]:
        """Where steps end, in milliseconds from the scene's beginning."""
        return [round((end - BEGIN_NS) / MS) for end in found.steps.end_ns.tolist()]

    @pytest.mark.parametrize("window_s", [120, *WINDOWS_S])
    @pytest.mark.parametrize("before", [20, 90])
    def test_a_restart_on_other_servers_goes_on_with_the_job(self, before: int, window_s: int) -> None:
        first = [flow for flow in job(self.GRID, before + 1) if flow.start_ms < before * 1000 + 150]  # amid a step
        again = shifted(renamed(job(self.GRID, 30), [2, 3, 4, 5]), (before + 15) * 1000)
        found = work(batch(shaken(first + again, 1, ms=0.1)), topology(6), window_s).only
        assert found.last.members.endpoint.tolist() == list(range(6))
        assert found.steps.step.tolist() == list(range(before + 30))
        assert np.flatnonzero(found.steps.complete == 0).tolist() == [0, before]
        assert {group.members for group in found.last.groups} == {
            *((0, 1), (2, 3), (4, 5)),
            *((0, 2), (1, 3), (2, 4), (3, 5)),
        }
        assert found.last.members.pp_stage.tolist() == [0, 0, 0, 0, 1, 1]
        [restart] = findings(found)
        assert (restart.kind, restart.first_step) == ("restart", before)
        assert restart.evidence["left"] == ["10.0.100.0", "10.0.101.0"]
        assert restart.observed == pytest.approx(15.0, abs=1.0)

    @pytest.mark.parametrize("window_s", [120, *WINDOWS_S])
    def test_another_job_on_some_of_the_servers_is_another(self, window_s: int) -> None:
        other = shifted(renamed(job(self.GRID, 40, 800, microbatches=6), [2, 3, 4, 5]), 32_000)
        jobs = work(batch(shaken(job(self.GRID, 20) + other, 1, ms=0.1)), topology(6), window_s).jobs.values()
        one, two = sorted(jobs, key=lambda found: found.last.job.first_seen_ns)
        assert one.last.members.endpoint.tolist() == [0, 1, 2, 3]
        assert two.last.members.endpoint.tolist() == [2, 3, 4, 5]
        assert (len(one.steps), len(two.steps)) == (20, 40)
        assert one.last.pairs.last_seen_ns.max() < two.last.pairs.first_seen_ns.min()

    @pytest.mark.parametrize("window_s", WINDOWS_S)
    def test_others_go_on_when_a_server_is_lost_and_returns(self, window_s: int) -> None:
        whole, size = [0, 1, 2, 3], 60 * MB  # of which a ring of four passes 3/2 along each edge, one of three 4/3
        flows = [
            *ring(whole, every(1000, 30, 1000), size=size * 3 // 2),
            *ring([0, 1, 3], every(1000, 20, 41_000), size=size * 4 // 3),
            *ring(whole, every(1000, 30, 71_000), size=size * 3 // 2),
        ]
        found = work(batch(shaken(flows, 1, ms=0.1)), topology(4), window_s).only
        assert len(found.steps) == 80
        assert {group.members for group in found.last.groups} == {(0, 1, 2, 3), (0, 1, 3)}
        away = found.gpu_steps.take(found.gpu_steps.endpoint == 2)
        assert away.step.tolist() == [*range(30), *range(50, 80)]

    @pytest.mark.parametrize("window_s", WINDOWS_S)
    def test_a_job_that_pauses_is_one_life(self, window_s: int) -> None:
        flows = [flow for at in (0, 17_000, 60_000, 80_000, 130_000) for flow in shifted(job(self.GRID, 12), at)]
        found = work(batch(shaken(flows, 1, ms=0.1)), topology(4), window_s).only
        assert len(found.steps) == 60
        assert found.steps.complete.tolist() == [0] + [1] * 59
        assert_steps_tile(found)

    def test_clock_behind_brings_back_no_earlier_attempt(self) -> None:
        sizes = [20 * MB] * 5
        attempts = buckets([0, 1, 2, 3], every(1000, 15, 1000), sizes, 35)
        attempts += buckets([0, 1, 4, 5], every(1000, 20, 22_000), sizes, 35)
        seen = [
            replace(flow, exporter=name, start_ms=flow.start_ms + late) for flow in attempts for name, late in CLOCKS
        ]
        found = work(batch(seen), topology(6), 30).only
        assert len(found.last.members) == 6
        assert len(found.steps) == 35


#: Exporters and how many milliseconds late they stamp their records.
CLOCKS = (("one", 0), ("two", 0), ("three", 200))


class TestImbalance:
    """Six groups in one pipeline each way, of which one reduces half as much again in every step, for 150 steps."""

    GRID = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11))

    def flows(self, steps: int) -> list[Flow]:
        starts = every(1000, steps)
        flows = []
        for replica in zip(*self.GRID, strict=True):
            flows += pipeline(replica, starts, microbatches=2)
        for number, stage in enumerate(self.GRID):
            times = 1.5 if number == 5 else 1.0
            ends = [start + 1000 for start in starts]
            flows += ring(stage, ends, length_ms=80 * times, size=round(40 * MB * times))
        return flows

    @pytest.mark.parametrize("window_s", [200, 30, *swept(7)])
    def test_it_is_one_open_finding_whatever_the_windows(self, window_s: int) -> None:
        worked = work(batch(self.flows(150)), topology(12), window_s)
        (one,) = worked.only.findings.values()
        assert (one.kind, one.first_step, one.status, one.severity) == ("imbalance", 0, "open", "info")
        assert one.last_step >= 145
        assert one.evidence["groups"] == [5]
        assert "(pipeline stage 5)" in one.summary

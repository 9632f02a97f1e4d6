"""Jobs in which one GPU is slow from their first steps on: pairs, members, steps and the culprit are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.accuracy.faults.stream import read_flows, read_topology
from prism_ch.model.params import Params
from prism_ch.model.result import PAIR_KINDS
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.simulate import Simulation, generate, textbook
from prism_ch.simulate.families import FAMILIES
from prism_ch.simulate.job import Fault
from tests.sweeps import swept
from tests.unit.analysis.build import MB, Flow, batch, ring, shaken
from tests.unit.analysis.build import topology as endpoints
from tests.unit.chain import Published, Results, work_window
from tests.unit.chain import work as work_flows

#: The slow GPU is the sixth of the first server, of the second tensor group of four or the third of two.
RANK = 5


def made(tp: int, pp: int, dp: int, seed: int, slow: tuple[float, int], duration_s: float = 60) -> Simulation:
    """Records of a job whose rank is slow by a factor from a step on."""
    factor, first = slow
    slow_gpu = (RANK, factor, first, 1000)
    return generate(textbook(tp * pp * dp, tp, pp, dp, step_s=1.0, duration_s=duration_s, seed=seed, slow_gpu=slow_gpu))


def work(recorded: Simulation, window_s: int = 60) -> tuple[Results, Topology]:
    """Work the recording window by window."""
    topology, results = read_topology(recorded.topology), Results()
    flows = read_flows(recorded.flows, topology)
    first, last = recorded.summary["window_start_ns"], recorded.summary["window_end_ns"]
    for at in range(first, last, window_s * 10**9):
        work_window(results, flows, topology, Window(at, min(at + window_s * 10**9, last)), Params())
    return results, topology


def wrong_pairs(job: Published, recorded: Simulation, topology: Topology) -> list[str]:
    """The pairs whose kind is not that of the truth."""
    kinds = {(row["src_addr"], row["dst_addr"]): row["kind"] for row in recorded.truth["pairs"].to_pylist()}
    name = topology.endpoints
    found = zip(job.last.pairs.src.tolist(), job.last.pairs.dst.tolist(), job.last.pairs.kind.tolist(), strict=True)
    named = [((name[src], name[dst]), PAIR_KINDS[kind]) for src, dst, kind in found]
    return [f"{pair}: {kind}" for pair, kind in named if kinds[pair] != kind]


def phase_error(job: Published, recorded: Simulation, topology: Topology) -> float:
    """The mean error of compute, PP and DP time of a GPU-step, as a share of the step."""
    truth = {(row["endpoint"], row["end_ns"]): row for row in recorded.truth["gpu_steps"].to_pylist()}
    errors = []
    gpu_steps = job.gpu_steps.take(job.gpu_steps.complete == 1)
    for row in range(len(gpu_steps)):
        true = truth.get((topology.endpoints[gpu_steps.endpoint[row]], int(gpu_steps.end_ns[row])))
        if true is None:
            errors.append(1.0)
        elif true["complete"]:
            off = [abs(getattr(gpu_steps, name)[row] - true[name]) for name in ("compute_s", "pp_s", "dp_s")]
            errors.append(max(off) / true["duration_s"])
    return float(np.mean(errors))


def culprits(results: Results) -> set[tuple[str, str]]:
    return {
        (finding.kind, finding.subject)
        for job in results.jobs.values()
        for finding in job.findings.values()
        if finding.kind != "slow_step"
    }


@pytest.mark.parametrize("seed, slow", [(3, (2.5, 0)), (8, (2.0, 0)), (4, (2.5, 3)), (5, (4.0, 0))])
def test_who_waits_for_a_straggler_keeps_its_kind(seed: int, slow: tuple[float, int]) -> None:
    recorded = made(4, 2, 4, seed, slow)
    results, topology = work(recorded)
    assert wrong_pairs(results.only, recorded, topology) == []
    assert phase_error(results.only, recorded, topology) < 0.001
    assert culprits(results) == {("slow_gpu", "server-00000")}


@pytest.mark.parametrize("seed, slow", [(18, (2.5, 0)), (5, (4.0, 0)), (2, (2.0, 5)), (3, (1.5, 10))])
def test_a_stragglers_pipeline_stays_in_its_job(seed: int, slow: tuple[float, int]) -> None:
    """Gradients are reduced inside the two servers, so nothing but waiting joins the pipelines."""
    recorded = made(2, 2, 4, seed, slow)
    results, topology = work(recorded)
    assert len(results.only.last.members) == 16
    assert phase_error(results.only, recorded, topology) < 0.01
    assert culprits(results) == {("slow_gpu", "server-00000")}


def test_ten_even_steps_show_what_a_step_is_once_they_are_slow() -> None:
    """Shards that are gathered weigh what each of four reductions does; from step 10 on one rail takes long."""
    flows: list[Flow] = []
    ends_ms, at = [], 0.0
    for step in range(30):
        for _ in range(4):
            for bucket, megabytes in enumerate((30, 28, 24)):
                for rail in (0, 1):
                    members, end_ms = range(rail, 16, 2), at + 700 + 300 * bucket
                    flows += ring(members, [end_ms], length_ms=4 * megabytes, size=megabytes * MB)
            at += 1400
        gather_ms = 14_000.0 if step >= 10 else 220.0
        for rail, length_ms in ((0, 220.0), (1, gather_ms)):
            flows += ring(range(rail, 16, 2), [at + 60 + length_ms], length_ms=length_ms, size=82 * MB)
        at += 60 + gather_ms
        ends_ms.append(at)
        at += 140
    found = work_flows(batch(shaken(flows, 1, ms=4)), endpoints(16, 2), window_s=60).only
    assert len(found.steps) == len(ends_ms)
    assert np.diff(found.steps.end_ns) / 1e6 == pytest.approx(np.diff(ends_ms), abs=20)


@pytest.mark.parametrize("seed", [11, 13, *swept(6)])
def test_sharded_jobs_slow_until_step_ten_have_all_their_steps(seed: int) -> None:
    """While all wait for one rank, messages run into one another: a slow step has fewer bursts than others have."""
    run = FAMILIES["zero3"](seed, servers=2)
    step_s = run.duration_s / 50
    slow = Fault(kind="slow_gpu", gpu=run.jobs[0].attempts[0].gpus[0], factor=1.2, end_s=10 * step_s)
    recorded = generate(replace(run, duration_s=52 * step_s, phases=False, faults=(slow,)))
    results, _ = work(recorded)
    ended_ns = recorded.truth["steps"]["end_ns"].to_numpy()
    whole = np.count_nonzero(ended_ns > recorded.summary["window_start_ns"])
    assert whole - 2 <= len(results.only.steps) <= whole

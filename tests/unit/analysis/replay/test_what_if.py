"""What a finding costs, as a replay without it tells, against the same job without the fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.replay.causes import Cause
from prism_ch.analysis.replay.draft import ROUND
from prism_ch.analysis.replay.places import cause_of
from prism_ch.analysis.replay.replay import replay
from prism_ch.analysis.replay.what_if import ReplayedAttempt, _is_waited_for, lost_share
from prism_ch.model.finding import Finding
from prism_ch.simulate import Scenario
from prism_ch.simulate.families import FAMILIES
from prism_ch.simulate.job import Fault
from tests.unit.analysis.replay.simulated import PARAMS, attempts, graph


def on_network(family: str, factor: float, seed: int = 3) -> tuple[Scenario, Scenario]:
    """Return a job whose first NIC is slow all along, and the same job without that."""
    drawn = replace(FAMILIES[family](seed), phases=False)
    [job] = drawn.jobs
    more = replace(job.sync, buffer_bytes=4 * job.sync.buffer_bytes)
    drawn = replace(drawn, jobs=(replace(job, sync=more),))
    return replace(drawn, faults=(Fault(kind="slow_nic", gpu=job.attempts[0].gpus[0], factor=factor),)), drawn


def network_findings(scenario: Scenario) -> tuple[ReplayedAttempt, tuple[Finding, ...]]:
    [attempt] = attempts(scenario)
    return ReplayedAttempt.of(attempt, graph(scenario)), attempt.network


def median_step_s(scenario: Scenario) -> float:
    built = graph(scenario)
    return float(np.median(replay(built, built.lag, PARAMS.replay.sweeps).duration_ns[built.known])) / 1e9


@pytest.mark.parametrize("family", ["leaf-spine", "pipeline-1f1b", "distributed-optimizer"])
def test_slow_nic_costs_what_a_replay_without_it_saves(family: str) -> None:
    slow, healthy = on_network(family, 0.2)
    replayed, found = network_findings(slow)
    lost = 1 - median_step_s(healthy) / median_step_s(slow)
    assert lost > 0.05
    assert [lost_share(replayed, one) for one in found] == [pytest.approx(lost, abs=0.01)]


def test_replay_does_not_tell_what_its_graph_does_not_show() -> None:
    replayed, [found] = network_findings(on_network("leaf-spine", 0.2)[0])
    without_groups = replace(replayed, communicators=dict.fromkeys(replayed.communicators, ()))
    assert lost_share(replayed, found) is not None
    assert lost_share(without_groups, found) is None


def test_replay_does_not_tell_of_what_ends_before_it_can_begin() -> None:
    replayed, [found] = network_findings(on_network("leaf-spine", 0.2)[0])
    cause = cause_of(replayed.graph, found, replayed.communicators, replayed.topology)
    assert cause is not None
    lag = replayed.graph.lag.copy()
    lag[np.flatnonzero(cause.moves)[0]] = -1.0
    assert lost_share(replace(replayed, graph=replace(replayed.graph, lag=lag)), found) is None


@pytest.mark.parametrize("factor", [0.05, 0.5])
def test_replay_tells_what_a_group_costs_that_all_wait_for(factor: float) -> None:
    """All rails are one communicator, joined inside the servers: none shows what the slow one usually takes."""
    slow, healthy = on_network("ddp-fused", factor)
    replayed, found = network_findings(slow)
    lost = 1 - median_step_s(healthy) / median_step_s(slow)
    assert [lost_share(replayed, one) for one in found] == [pytest.approx(lost, abs=0.01)]


def test_a_groups_number_is_the_name_of_no_place() -> None:
    """Else whatever moves data would be slow with it, as where something above the leaves is."""
    replayed, [found] = network_findings(on_network("ddp-fused", 0.2)[0])
    cause = cause_of(replayed.graph, found, replayed.communicators, replayed.topology)
    assert cause is not None
    rounds = replayed.graph.kind == ROUND
    assert (found.kind, bool(cause.moves[rounds].all())) == ("slow_group", False)


def test_replay_does_not_tell_what_hidden_exchanges_cost() -> None:
    """What experts exchange inside operations is not in the graph, and crosses the switch as well."""
    slow = replace(FAMILIES["experts"](3), phases=False)
    [job] = slow.jobs
    leaf = Fault(kind="slow_switch", gpu=job.attempts[0].gpus[0], factor=0.1)
    replayed, found = network_findings(replace(slow, faults=(leaf,)))
    switches = [one for one in found if one.kind == "slow_switch"]
    assert switches
    assert {lost_share(replayed, one) for one in switches} == {None}


def test_what_steps_wait_for_makes_them_longer_if_slower() -> None:
    replayed, _ = network_findings(on_network("ddp-fused", 0.5)[0])
    graph = replayed.graph
    rounds = Cause(np.empty(0, dtype=np.int64), graph.kind == ROUND)
    assert _is_waited_for(replayed, rounds, graph.known)
    assert not _is_waited_for(replayed, replace(rounds, moves=np.zeros_like(rounds.moves)), graph.known)

"""Hang culprits: whose send is overdue first, and who takes no part in the last collective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.stops.hang_culprits import HangCulprits, Sends, TrainingPairs, find_hang_culprits
from prism_ch.model.params import Params
from prism_ch.model.result import DP, EP, PP
from tests.unit.analysis.build import BEGIN_NS, Flow, batch, every, ring

STOPS = Params().stops
SECOND = 10**9


def culprits(flows: Sequence[Flow], kind: dict[tuple[int, int], int] | None = None, steps: int = 20) -> HangCulprits:
    seen = batch(flows)
    src, dst = np.unique(np.stack([seen.src, seen.dst]), axis=1)
    kinds = [(kind or {}).get(pair, DP) for pair in zip(src.tolist(), dst.tolist(), strict=True)]
    pairs = TrainingPairs(src, dst, np.array(kinds, np.uint8))
    begin_ns = BEGIN_NS + np.arange(steps + 1) * SECOND
    return find_hang_culprits(Sends(pairs.rows_of(seen), seen.start_ns), pairs, begin_ns, 1.0, STOPS)


HOPS = [(0, 1, 200.0), (1, 2, 400.0), (2, 0, 600.0), (0, 2, 800.0)]
PIPELINE = {(src, dst): PP for src, dst, _ in HOPS}


def chain(steps: float) -> list[Flow]:
    """Every step 0 sends to 1, 1 to 2 and 2 to 0, a fifth of a second after one another; cut off amid a step."""
    sent = [Flow(src, dst, step * 1000 + at) for step in range(25) for src, dst, at in HOPS]
    return [flow for flow in sent if flow.start_ms < steps * 1000]


@pytest.mark.parametrize(
    "until, culprit, inside", [(20.0, 0, False), (20.3, 1, True), (20.5, 2, True), (20.7, 0, True)]
)
def test_the_first_message_that_is_overdue_names_its_sender(until: float, culprit: int, inside: bool) -> None:
    found = culprits(chain(until), PIPELINE)
    assert (found.endpoints.tolist(), found.inside_step, found.anybody) == ([culprit], inside, until == 20.0)
    due_s = {0: 20.2, 1: 20.4, 2: 20.6}[culprit] if until < 20.6 else 20.8
    assert found.due_ns == BEGIN_NS + round(due_s * SECOND)


def test_who_waits_for_a_message_is_no_culprit() -> None:
    """Messages follow one another so closely that those of three stages are overdue as good as at once."""
    hops = [(0, 1, 200.0), (1, 2, 205.0), (2, 3, 210.0)]
    flows = [Flow(src, dst, step * 1000 + at, 0.1) for step in range(21) for src, dst, at in hops]
    kept = [flow for flow in flows if flow.start_ms < 20_205]
    assert culprits(kept, {(src, dst): PP for src, dst, _ in hops}).endpoints.tolist() == [1]


def test_after_all_its_sends_nobody_is_overdue() -> None:
    found = culprits(chain(21), PIPELINE)
    assert (found.endpoints.tolist(), found.due_ns) == ([], None)


def test_a_record_that_was_lost_is_no_send_that_is_missing() -> None:
    twice = [(0, 1, 100.0), (0, 1, 300.0), (1, 2, 500.0), (1, 2, 700.0)]
    flows = [Flow(src, dst, step * 1000 + at) for step in range(21) for src, dst, at in twice]
    kept = [flow for flow in flows if flow.start_ms not in {20_100.0, 20_500.0, 20_700.0}]
    assert culprits(kept, {(0, 1): PP, (1, 2): PP}).endpoints.tolist() == [1]


def test_any_member_may_be_culprit_if_nobody_begins_a_collective() -> None:
    found = culprits(ring(range(3), every(1000, 20, 500)))
    assert (found.endpoints.tolist(), found.anybody, found.inside_step) == ([0, 1, 2], True, False)


@pytest.mark.parametrize("missing", [0, 2, 4])
@pytest.mark.parametrize("known", [20, 21])
def test_who_takes_no_part_while_its_peers_do_is_named(missing: int, known: int) -> None:
    """Whether or not the collective that was cut short was taken for the end of a step."""
    last = ring(range(5), [20_900])
    begun = [replace(flow, length_ms=0.1, size=4 << 20) for flow in last if missing not in {flow.src, flow.dst}]
    found = culprits([*ring(range(5), every(1000, 20, 900)), *begun], steps=known)
    assert (found.endpoints.tolist(), found.anybody) == ([missing], False)
    assert found.due_ns == last[0].start_ns


@pytest.mark.parametrize("known", [20, 21])
def test_a_pipeline_that_misses_a_step_names_who_begins_it(known: int) -> None:
    """Replicas inside servers share no link: the others end the step, and wait for that one unseen."""
    messages = [(0, 1, 200.0), (1, 0, 500.0), (2, 3, 200.0), (3, 2, 500.0), (4, 5, 200.0), (5, 4, 500.0)]
    sent = [Flow(src, dst, step * 1000 + at) for step in range(21) for src, dst, at in messages]
    flows = [flow for flow in sent if flow.start_ms < 20_000 or flow.src not in {2, 3}]
    found = culprits(flows, {(src, dst): PP for src, dst, _ in messages}, steps=known)
    assert (found.endpoints.tolist(), found.anybody, found.begun) == ([2], False, True)


@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("sends_on", [False, True])
def test_exchange_over_pairs_of_two_kinds_names_who_is_missing(missing: int, sends_on: bool) -> None:
    """Experts on servers of two exchange with those of the other; some of the pairs carry gradients as well.

    What each sends on to the next stage shortly afterwards waits for the exchange.
    """
    exchanged = [(a, b) for low, high in ((0, 2), (0, 3), (1, 2), (1, 3)) for a, b in ((low, high), (high, low))]
    kinds = {pair: DP if sum(pair) % 2 == 0 else EP for pair in exchanged}
    flows = [Flow(*pair, 1000 * step + 200) for step in range(20) for pair in exchanged]
    flows += [flow for pair in ([0, 2], [1, 3]) for flow in ring(pair, every(1000, 20, 900))]
    if sends_on:
        kinds |= {(rank, rank + 4): PP for rank in range(4)}
        flows += [Flow(rank, rank + 4, 1000 * step + 215) for step in range(20) for rank in range(4)]
    begun = [Flow(*pair, 20_200, 0.1, 4 << 20) for pair in exchanged if missing not in pair]
    found = culprits([*flows, *begun], kinds)
    assert (found.endpoints.tolist(), found.anybody, found.begun) == ([missing], False, True)


def test_message_names_its_sender_before_waiting_collectives_do() -> None:
    """Of two replicas of two stages, the first stage of the second never sends on."""
    messages = [(0, 1, 200.0), (1, 0, 500.0), (2, 3, 200.0), (3, 2, 500.0)]
    sent = [Flow(src, dst, step * 1000 + at) for step in range(21) for src, dst, at in messages]
    reduced = [flow for pair in ([0, 2], [1, 3]) for flow in ring(pair, every(1000, 20, 900))]
    flows = [*[flow for flow in sent if flow.start_ms < 20_000 or flow.src < 2], *reduced]
    found = culprits(flows, {(src, dst): PP for src, dst, _ in messages})
    assert (found.endpoints.tolist(), found.inside_step) == ([2], False)


@pytest.mark.parametrize("lost, named", [(0, [7]), (1, [])])
def test_nobody_is_named_whose_records_may_be_lost(lost: int, named: list[int]) -> None:
    """All of 64 begin a collective but one, of whom no record shows: some step before one was lost of each, or none."""
    members = range(64)
    flows = [
        flow
        for step, end in enumerate(every(1000, 20, 900))
        for flow in ring(members, [end])
        if not lost or flow.src % 20 != step
    ]
    begun = [flow for flow in ring(members, [20_900]) if 7 not in {flow.src, flow.dst}]
    assert culprits([*flows, *begun]).named.tolist() == named


def test_one_lost_message_names_nobody_in_a_pause_between_steps() -> None:
    """Eight pipelines of two ranks, of which each step loses the last message of one, and then all pause."""
    links = {(2 * lane, 2 * lane + 1): PP for lane in range(8)}
    sent = [Flow(*pair, step * 1000 + at) for step in range(21) for pair in links for at in (200, 400)]
    kept = [flow for flow in sent if flow.start_ms % 1000 == 200 or flow.src // 2 != flow.start_ms // 1000 % 8]
    assert culprits(kept, links).endpoints.tolist() == []


@pytest.mark.parametrize("behind, some", [([0], True), ([0, 3], True), ([0, 1, 2], False), ([6], True), ([], True)])
def test_who_is_behind_with_its_whole_stage_has_no_peers(behind: list[int], some: bool) -> None:
    stages = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    messages = [(0, 3), (1, 4), (2, 5), (6, 0)]
    src, dst = np.array([*stages, *messages], np.int32).T
    pairs = TrainingPairs(src, dst, np.array([DP] * len(stages) + [PP] * len(messages), np.uint8))
    assert pairs.have_peers(np.array(behind, np.int32), STOPS) is some

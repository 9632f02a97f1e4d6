"""Pipelines alone: a step ends where all that was sent has been answered, though some of it is not on record."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from prism_ch.analysis.steps.sequences import Sequences, links, read_sequences
from prism_ch.analysis.steps.steps import divide
from prism_ch.analysis.steps.strays import without_strays
from prism_ch.model.columns import Int64
from prism_ch.model.job import Division
from prism_ch.model.params import DivideParams
from tests.unit.analysis.build import (
    BEGIN_NS,
    MB,
    MS,
    Flow,
    batch,
    every,
    pipeline,
    renamed,
    shaken,
    topology,
    traffic,
    typed,
)
from tests.unit.chain import work

PARAMS = DivideParams()
STAGES = [0, 1, 2, 3]
RING = [(0, 1), (1, 2), (2, 3), (0, 3)]


@pytest.mark.parametrize("microbatches", [4, 8, 16])
@pytest.mark.parametrize("lost", [0.005, 0.02])
def test_lost_messages_shift_no_later_step(lost: float, microbatches: int) -> None:
    starts = every(2500, 40)
    flows = shaken(pipeline(STAGES, starts, microbatches=microbatches), 1, ms=0.5)
    gone = np.random.default_rng(2).random(len(flows)) < lost
    seen = traffic([flow for flow, missing in zip(flows, gone, strict=True) if not missing])
    found = divide(seen, typed(seen, list(pairwise(STAGES))), np.array(STAGES, np.int32), PARAMS)
    last_ms = max(flow.start_ms + flow.length_ms for flow in flows if flow.start_ms < 2400)
    ends = [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]
    # Where the last gradient itself is not on record, the step ends with the one before it.
    assert ends == pytest.approx([start + last_ms for start in starts], abs=150)
    assert np.median(np.array(ends) - starts) == pytest.approx(last_ms, abs=2)


@pytest.mark.parametrize("step", [4, 6])
def test_messages_lost_of_one_step_shift_none_before(step: int) -> None:
    starts = every(2500, 40)
    flows = shaken(pipeline([0, 1, 2], starts, microbatches=3), 1, ms=0.5)
    begun = [flow for flow in flows if flow.start_ms > 130]  # of the first step, only what comes back is on record
    backward = [flow for flow in begun if (flow.src, flow.dst) == (1, 0) and flow.start_ms > 2500 * step]
    seen = traffic([flow for flow in begun if flow not in backward[:2]])
    found = divide(seen, typed(seen, [(0, 1), (1, 2)]), np.arange(3, dtype=np.int32), PARAMS)
    last_ms = max(flow.start_ms + flow.length_ms for flow in flows if flow.start_ms < 2400)
    ends = [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]
    assert ends == pytest.approx([start + last_ms for start in starts], abs=5)


def test_ranks_that_connect_before_their_first_step_end_none() -> None:
    starts = every(2500, 12, 3000)
    alone = [flow.start_ms + flow.length_ms for flow in pipeline(STAGES, [0])]
    meeting = [Flow(near, far, 500 + 40 * turn, 2, 9000) for near, far in pairwise(STAGES) for turn in range(2)]
    seen = traffic([*meeting, *pipeline(STAGES, starts)])
    found = divide(seen, typed(seen, list(pairwise(STAGES))), np.array(STAGES, np.int32), PARAMS)
    assert [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()] == [start + max(alone) for start in starts]


def gpipe(slow: dict[int, float], microbatches: int = 8) -> list[Flow]:
    """A step of a pipeline whose stages do all forward passes, of 20 ms, before any backward one, of 40 ms."""
    flows, free_ms = [], [0.0] * len(STAGES)
    for stages, pass_ms in ((STAGES, 20.0), (STAGES[::-1], 40.0)):
        come_ms = [free_ms[stages[0]]] * microbatches
        for stage, after in zip(stages, [*stages[1:], None], strict=True):
            for turn, here_ms in enumerate(come_ms):
                free_ms[stage] = max(free_ms[stage], here_ms) + pass_ms * slow.get(stage, 1.0)
                come_ms[turn] = free_ms[stage] + 4
                flows += [] if after is None else [Flow(stage, after, free_ms[stage], 4)]
    return flows


@pytest.mark.parametrize("slow", [{}, {0: 2.0}, {1: 2.5}, {1: 4.0}, {2: 2.5}, {3: 4.0}], ids=str)
def test_a_slow_stage_does_not_turn_forward_and_backward_round(slow: dict[int, float]) -> None:
    flows, starts = gpipe(slow), every(4000, 10)
    last_ms = max(flow.start_ms + flow.length_ms for flow in flows)
    seen = traffic([replace(flow, start_ms=flow.start_ms + start) for start in starts for flow in flows])
    found = divide(seen, typed(seen, list(pairwise(STAGES))), np.array(STAGES, np.int32), PARAMS)
    assert [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()] == [start + last_ms for start in starts]


@pytest.mark.parametrize("chunks, microbatches", [(2, 4), (2, 16), (3, 8)])
def test_wrapped_stages_end_steps_when_all_links_rest(chunks: int, microbatches: int) -> None:
    alone = pipeline(STAGES * chunks, [0], microbatches=microbatches)
    last_ms = max(flow.start_ms + flow.length_ms for flow in alone)
    starts = every(last_ms + 300, 12)
    seen = traffic(pipeline(STAGES * chunks, starts, microbatches=microbatches))
    found = divide(seen, typed(seen, RING), np.array(STAGES, np.int32), PARAMS)
    assert [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()] == [start + last_ms for start in starts]


@pytest.mark.parametrize("depth", [2, 5, 12])
def test_one_microbatch_passes_no_other(depth: int) -> None:
    # The first link of a long pipeline waits long for its gradient, and soon sends the next activation.
    stages = list(range(depth))
    alone = pipeline(stages, [0], microbatches=1)
    last_ms = max(flow.start_ms + flow.length_ms for flow in alone)
    starts = every(last_ms + 70, 12)
    seen = traffic(shaken(pipeline(stages, starts, microbatches=1), 1, ms=0.5))
    found = divide(seen, typed(seen, list(pairwise(stages))), np.array(stages, np.int32), PARAMS)
    ends = [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]
    assert ends == pytest.approx([start + last_ms for start in starts], abs=2)


@pytest.mark.parametrize("name", [[0, 1, 2, 3, 4, 5], [0, 2, 1, 3, 4, 5], [5, 4, 3, 2, 1, 0]], ids=str)
def test_links_apart_show_which_way_one_microbatch_goes(name: list[int]) -> None:
    """Two stages on each server: of the links only 1-2 and 3-4 are on record; the last stage computes long."""
    stages = range(6)

    def seen_of(starts: list[float]) -> list[Flow]:
        flows = [*pipeline(stages, starts, microbatches=1, slow={5: 5.0})]
        flows += [replace(flow, src=flow.src + 6, dst=flow.dst + 6) for flow in flows]  # a replica
        between = [flow for flow in flows if {flow.src % 6, flow.dst % 6} in ({1, 2}, {3, 4})]
        return renamed(between, [*name, *(place + 6 for place in name)])

    last_ms = max(flow.start_ms + flow.length_ms for flow in seen_of([0]))
    starts = every(800, 12)
    seen = traffic(shaken(seen_of(starts), 1, ms=0.5))
    endpoints = np.unique(np.concatenate([seen.pair_src, seen.pair_dst]))
    found = divide(
        seen, typed(seen, list(zip(seen.pair_src.tolist(), seen.pair_dst.tolist(), strict=True))), endpoints, PARAMS
    )
    ends = [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]
    assert ends == pytest.approx([start + last_ms for start in starts], abs=3)


def test_link_that_rests_within_steps_too_ends_them_by_turns() -> None:
    """Three microbatches through two stages that put weight gradients off: the link rests after the second one."""
    messages = ((0, 0), (0, 37), (1, 78), (1, 154), (0, 231), (1, 305))
    starts = every(432, 40)
    flows = [Flow(way, 1 - way, start + at, 2) for start in starts for way, at in messages]
    seen = traffic(shaken(flows, 1, ms=0.5))
    found = divide(seen, typed(seen, [(0, 1)]), np.array([0, 1], np.int32), PARAMS)
    ends = [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]
    assert ends == pytest.approx([start + 307 for start in starts], abs=3)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_messages_that_pass_each_other_end_no_step(seed: int) -> None:
    # Of many microbatches one's gradient comes about when the next one's activation goes.
    flows = pipeline([0, 1], [0, 65000], microbatches=32, forward_ms=600, backward_ms=1200)
    seen = traffic(shaken(flows, seed, ms=20))
    last_ms = max(flow.start_ms for flow in flows if flow.start_ms < 65000)
    found = divide(seen, typed(seen, [(0, 1)]), np.array([0, 1], np.int32), PARAMS)
    assert [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()][:1] == pytest.approx([last_ms], abs=60)
    assert found.steps <= 2


def test_last_link_steps_with_pipeline_when_often_at_rest() -> None:
    starts = every(1500, 12)
    answers = {2: 0.0, 1: 150.0, 0: 300.0}  # of each link: how long after the last microbatch its gradients come up
    flows = []
    for start in starts:
        for stage, after in answers.items():
            for turn in range(4):
                down = start + 100 * turn + 10 * stage
                up = down + 50 if stage == 2 else start + 400 + 100 * turn + after
                flows += [Flow(stage, stage + 1, down, 4), Flow(stage + 1, stage, up, 4)]
    seen = traffic(flows)
    found = divide(seen, typed(seen, list(pairwise(STAGES))), np.array(STAGES, np.int32), PARAMS)
    assert found.steps == len(starts)
    ends = (found.end_ns[2:] - BEGIN_NS) / MS
    assert ends[1].tolist() == [start + 374 for start in starts]


STRAY_STARTS = every(1000, 10)
STRAYS = traffic(
    [flow for pair in range(8) for flow in pipeline([2 * pair, 2 * pair + 1], STRAY_STARTS, microbatches=4)]
)
#: Each link is a pipeline of its own, as on as many rails.
CHAIN = np.arange(8, dtype=np.int32)


def eight_links() -> tuple[Sequences, Int64]:
    """Eight links of as many pipelines, and when each of their steps ends."""
    sequences = read_sequences(STRAYS, links(STRAYS), PARAMS)
    bounds = np.array([*STRAY_STARTS[1:], 10_000]) * MS + BEGIN_NS
    ends = [
        [sequences.end_ns[(sequences.line == line) & (sequences.end_ns < bound)].max() for bound in bounds]
        for line in range(8)
    ]
    return sequences, np.array(ends)


def moved(sequences: Sequences, ends: Int64, to: Int64) -> Sequences:
    """The sequences whose bursts that end steps do so at other times."""
    end_ns = sequences.end_ns.copy()
    for link, step in np.argwhere(ends != to).tolist():
        end_ns[(sequences.line == link) & (sequences.end_ns == ends[link, step])] = to[link, step]
    return replace(sequences, end_ns=end_ns)


def test_links_that_end_together_stay_as_they_are() -> None:
    sequences, ends = eight_links()
    np.testing.assert_array_equal(without_strays(sequences, ends, CHAIN, PARAMS), ends)


def test_lone_late_link_ends_with_its_last_message_before() -> None:
    sequences, ends = eight_links()
    strayed = ends.copy()
    strayed[3, 4] += 200 * MS
    np.testing.assert_array_equal(without_strays(sequences, strayed, CHAIN, PARAMS), ends)


def test_links_that_are_late_together_were_held_up() -> None:
    sequences, ends = eight_links()
    late = ends.copy()
    late[2:6, 4] += 200 * MS
    np.testing.assert_array_equal(without_strays(moved(sequences, ends, late), late, CHAIN, PARAMS), late)


def test_of_two_links_and_two_none_strays_from_the_others() -> None:
    sequences, ends = eight_links()
    rows = sequences.line < 4
    four = replace(
        sequences,
        **{name: getattr(sequences, name)[rows] for name in ("line", "start_ns", "end_ns", "payload", "gap_s")},
        followed_by=sequences.followed_by[rows],
        offsets=sequences.offsets[:5],
    )
    late = ends[:4].copy()
    late[2:, 4] += 200 * MS
    np.testing.assert_array_equal(without_strays(moved(four, ends[:4], late), late, CHAIN[:4], PARAMS), late)


def test_late_links_of_one_pipeline_have_lost_messages() -> None:
    sequences, ends = eight_links()
    strayed = ends.copy()
    strayed[2:6, 4] += 200 * MS
    chain = np.array([0, 1, 2, 2, 2, 2, 3, 4], dtype=np.int32)
    np.testing.assert_array_equal(without_strays(sequences, strayed, chain, PARAMS), ends)


def test_a_link_keeps_its_usual_distance() -> None:
    sequences, ends = eight_links()
    first = ends.copy()
    first[0] -= 80 * MS
    np.testing.assert_array_equal(without_strays(moved(sequences, ends, first), first, CHAIN, PARAMS), first)


def test_a_stragglers_late_end_stays_before_the_others_begin() -> None:
    sequences, ends = eight_links()
    late = ends.copy()
    late[3, 4] += 200 * MS
    # All begin the next steps as much later.
    after = sequences.start_ns > ends[0, 4]
    shifted = replace(
        sequences, start_ns=sequences.start_ns + 200 * MS * after, end_ns=sequences.end_ns + 200 * MS * after
    )
    late[:, 5:] += 200 * MS
    np.testing.assert_array_equal(without_strays(moved(shifted, ends, late), late, CHAIN, PARAMS), late)


def test_of_a_single_step_nobody_can_tell() -> None:
    sequences, ends = eight_links()
    np.testing.assert_array_equal(without_strays(sequences, ends[:, :1], CHAIN, PARAMS), ends[:, :1])


def test_steps_of_a_known_job_stay_whole_while_a_stage_is_slow() -> None:
    """A slow first stage lets the second answer each microbatch before the next one comes."""
    flows: list[Flow] = []
    begin_ms = 0.0
    for number in range(110):
        forward_ms, answer_ms = (50.0, 0.0) if number < 80 else (300.0, 0.0)
        sent_ms = [begin_ms + forward_ms * (microbatch + 1) for microbatch in range(4)]
        for at_ms in sent_ms:
            answer_ms = max(answer_ms, at_ms) + 150.0
            flows += [Flow(0, 1, at_ms), Flow(1, 0, answer_ms)]
        begin_ms = answer_ms + 200.0
    found = work(batch(shaken(flows, 1, ms=0.1)), topology(2), 10).only.steps
    assert len(found) == 110
    assert found.duration_s[1:] == pytest.approx([0.85] * 79 + [1.55] * 30, abs=0.002)


def test_straggler_that_rests_within_steps_ends_them_with_others() -> None:
    """Each answer of the slow pipeline comes before its next microbatch, the other one is busy for the whole step."""
    starts, slow, quick = every(1600, 12), [], []
    for start in starts:
        for microbatch in range(4):
            slow += [Flow(0, 1, start + 300 * (microbatch + 1)), Flow(1, 0, start + 300 * (microbatch + 1) + 150)]
            quick += [Flow(2, 3, start + 50 * (microbatch + 1)), Flow(3, 2, start + 50 + 150 * (microbatch + 1))]
    seen = traffic(shaken(sorted([*slow, *quick], key=lambda flow: flow.start_ms), 1, ms=0.5))
    young = divide(seen, typed(seen, [(0, 1), (2, 3)]), np.arange(4, dtype=np.int32), PARAMS)
    ends_ms = (young.end_ns[0] - BEGIN_NS) / MS
    assert ends_ms[:-1] == pytest.approx([start + 1360 for start in starts[:-1]], abs=2)
    known = Division(young.endpoints, young.end_ns[:, :6], young.whole[:6])
    later = divide(seen, typed(seen, [(0, 1), (2, 3)]), np.arange(4, dtype=np.int32), PARAMS, known)
    np.testing.assert_array_equal(later.end_ns, young.end_ns)


def test_link_seen_one_way_only_ends_no_step() -> None:
    """It never rests, and where the records end says nothing of when its steps do."""
    starts, pairs = every(2500, 20), [*pairwise(STAGES), (4, 5), (5, 6), (6, 7)]
    flows = [flow for stages in (STAGES, [4, 5, 6, 7]) for flow in pipeline(stages, starts)]
    flows = [flow for flow in flows if flow.start_ms < starts[-1] + 200]
    rest = [flow for flow in flows if (flow.src, flow.dst) != (1, 2)]
    whole, found = (
        divide(seen, typed(seen, pairs), np.arange(8, dtype=np.int32), PARAMS)
        for seen in (traffic(shaken(each, 1, ms=0.5)) for each in (flows, rest))
    )
    assert whole.steps == 19
    np.testing.assert_allclose(found.job_end_ns(), whole.job_end_ns(), rtol=0, atol=3 * MS)


@pytest.mark.parametrize("microbatches", [4, 8])
def test_a_hole_longer_than_many_steps_cuts_no_step_around_it(microbatches: int) -> None:
    starts = [start for start in every(1000, 70) if not 20_000 <= start < 50_000]
    seen = traffic(shaken(pipeline([0, 1], starts, microbatches=microbatches), 1, ms=0.5))
    found = divide(seen, typed(seen, [(0, 1)]), np.array([0, 1], np.int32), PARAMS)
    begin_ms = (found.job_end_ns()[:-1] - BEGIN_NS) / MS // 1000 * 1000
    assert begin_ms.tolist() == starts[:-1]


def test_half_a_message_before_the_first_step_shifts_no_end() -> None:
    """Records are read from a step's end on, as clocks show it, and one of two queue pairs may be just after it."""
    flows = pipeline([0, 1], every(2500, 12, 100))
    (alone, beside) = (
        divide(seen, typed(seen, [(0, 1)]), np.arange(2, dtype=np.int32), PARAMS)
        for seen in (traffic(flows), traffic([Flow(1, 0, 0, 4, size=4 * MB), *flows]))
    )
    assert beside.end_ns[:, -11:].tolist() == alone.end_ns[:, -11:].tolist()

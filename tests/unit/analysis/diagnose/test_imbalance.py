"""Imbalance: groups that move more bytes, or stages that compute longer, from the first step on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.compute.comparison import compare
from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.episodes import carry_on
from prism_ch.analysis.diagnose.findings import Place
from prism_ch.analysis.diagnose.imbalance import find_imbalance, find_uneven_stages
from prism_ch.model.finding import Finding
from prism_ch.model.params import DiagnoseParams
from tests.unit.analysis.build import MB, Flow, division, every, ordered, ring, traffic, typed

PARAMS = DiagnoseParams()
STEPS = 20


def groups(
    heavy: Collection[int],
    times: float = 1.5,
    *,
    count: int = 6,
    steps: Collection[int] = range(STEPS),
    length_ms: float = 100,
) -> list[Flow]:
    """Groups of two that reduce 40 MB in a step of a second; heavy ones so many times that, in so much more time."""
    flows = []
    for group in range(count):
        for step, end in enumerate(every(1000, STEPS, 1000)):
            more = times if group in heavy and step in steps else 1.0
            flows += ring([2 * group, 2 * group + 1], [end], length_ms=length_ms * more, size=round(40 * MB * more))
    return flows


def found(
    flows: Sequence[Flow], place: Place | None = None, known: Sequence[Finding] = (), steps: int = STEPS
) -> tuple[Finding, ...]:
    seen = traffic(flows)
    kinds = typed(seen)
    divided = division(sorted({flow.src for flow in flows}), every(1000, steps, 1000))
    place = Place("job", 0, PARAMS) if place is None else place
    return find_imbalance(seen, kinds, divided, ordered(seen, kinds, divided), (), known, place)


def later(first_step: int) -> Place:
    """A look at a job that is known, back to some step."""
    return Place("job", first_step, PARAMS, begins=False)


def test_a_group_that_moves_more_in_every_step_is_the_jobs_shape() -> None:
    (one,) = found(groups([2]))
    assert (one.kind, one.severity, one.status) == ("imbalance", "info", "open")
    assert (one.subject_type, one.subject, one.first_step, one.last_step) == ("job", "job", 0, STEPS - 1)
    assert [one.observed, one.expected, one.slowdown] == pytest.approx([0.15, 0.1, 0.05])
    assert one.summary == (
        "Data-parallel group 2 moves up to 1.5 times the bytes of the others in every step, and the "
        "job waits up to 0.05 s a step for that: the model could be divided more evenly."
    )
    assert one.evidence == {
        "groups": [2],
        "pp_stages": [0],
        "bytes_to_median": [1.5] * STEPS,
        "extra_s": 0.05,
    }


def test_several_groups_are_one_finding() -> None:
    (one,) = found(groups([2, 3]))
    assert one.summary.startswith("2 data-parallel groups move up to 1.5 times the bytes")
    assert one.evidence["groups"] == [2, 3]


@pytest.mark.parametrize(
    "flows",
    [
        groups([]),
        groups([2], 1.1),  # by little
        groups([2], steps=range(5, STEPS)),  # not from the first step on
        groups([2], steps=range(12)),
        groups([2], length_ms=10),  # costs nothing worth a word
        groups([2], count=3),  # too few to compare
    ],
)
def test_else_there_is_none(flows: list[Flow]) -> None:
    assert found(flows) == ()


def test_group_slow_for_equal_bytes_is_no_imbalance() -> None:
    assert found([replace(f, length_ms=f.length_ms * (1 + (f.src in {4, 5}))) for f in groups([])]) == ()


def test_groups_of_another_size_are_not_compared() -> None:
    odd = ring([20, 21, 22], every(1000, STEPS, 1000), length_ms=100, size=80 * MB)
    assert found([*groups([]), *odd]) == ()


def test_a_tree_with_edges_of_unlike_bytes_is_no_imbalance() -> None:
    """One more pair of a group carries twice the bytes, and is faster: no edge of the others is larger."""
    ends = every(1000, STEPS, 1000)
    trees = []
    for group in range(6):
        a, b, c = range(3 * group, 3 * group + 3)
        long_ms = 180 if group == 2 else 220
        for end in ends:
            trees += [Flow(a, b, end - 100, 100), Flow(b, c, end - long_ms, long_ms, 80 * MB)]
    assert found(trees) == ()


def test_it_stays_the_same_from_window_to_window() -> None:
    (before,) = found(groups([2]))
    known = [replace(before, last_step=9)]
    assert found(groups([2]), later(4)) == ()  # not seen from the first step on, and not known
    again = found(groups([2], 1.15), later(4), known)
    (said,) = carry_on(known, again, 10, PARAMS)
    assert (said.diagnosis_id, said.first_step, said.start_ns) == (before.diagnosis_id, 0, before.start_ns)
    assert (said.last_step, said.status) == (23, "open")


def test_it_is_over_where_the_groups_become_alike() -> None:
    known = [replace(found(groups([2]))[0], last_step=9)]
    (said,) = carry_on(known, found(groups([]), later(4), known), 10, PARAMS)
    assert said.status == "closed"


def test_too_few_steps_to_tell_leave_it_open() -> None:
    known = found(groups([2]))
    (said,) = found(groups([]), later(20), known, steps=4)
    assert (said.diagnosis_id, said.last_step, said.status) == (known[0].diagnosis_id, 23, "open")
    assert found(groups([2]), steps=4) == ()
    assert found(groups([2]), steps=0) == ()


def work(*lengths_s: float, late: bool = False) -> ComputeTime:
    """Two replicas of a pipeline whose stages work so long in a step, the last one perhaps in later steps only."""
    seconds = np.repeat(np.array(lengths_s), 2)[:, None] * np.random.default_rng(1).normal(1, 0.01, (1, STEPS))
    if late:
        seconds[-2:, : STEPS // 2] = seconds[-4:-2, : STEPS // 2]
    seconds[:, 0] = np.nan
    rows = np.arange(len(seconds), dtype=np.int32)
    turn_s = seconds.copy()
    turn_s[:2] = np.nan
    return ComputeTime(rows, rows // 2, seconds, rows, rows, absolute=True, turn_s=turn_s)


def found_stages(measured: ComputeTime, going: Finding | None = None) -> tuple[Finding, ...]:
    divided = division(measured.endpoints.tolist(), every(1000, STEPS, 1000))
    return find_uneven_stages((measured,), divided, going, Place("job", 0, PARAMS))


def test_last_stage_always_longer_is_the_jobs_shape() -> None:
    (one,) = found_stages(work(0.4, 0.4, 0.4, 0.6))
    assert (one.kind, one.subject_type, one.severity, one.status) == ("imbalance", "job", "info", "open")
    assert [one.observed, one.expected, one.slowdown] == pytest.approx([0.6, 0.4, 0.2], rel=0.02)
    assert one.summary.startswith("Pipeline stage 3 works up to 1.5 times as long as the others in every step")
    assert one.evidence["pp_stages"] == [3]


def test_uneven_stage_is_no_slow_gpu() -> None:
    measured = work(0.4, 0.4, 0.4, 0.6)
    divided = division(measured.endpoints.tolist(), every(1000, STEPS, 1000))
    assert not any(compared.score.any() for compared in compare((measured,), divided, {}, PARAMS.compute))


@pytest.mark.parametrize(
    "measured",
    [
        work(0.4, 0.4, 0.4, 0.44),
        work(0.4, 0.4, 0.4, 0.6, late=True),
        work(0.4, 0.6),
        work(0.004, 0.004, 0.004, 0.006),
        work(0.4, 0.4, 0.4, 0.0),
        work(0.4, 0.0, 0.0, 0.4),
    ],
    ids=["little", "later", "two stages", "no share of the step", "a stage without work", "most without work"],
)
def test_no_uneven_stage_where_load_is_usual_or_unknown(measured: ComputeTime) -> None:
    assert found_stages(measured) == ()


def test_known_uneven_stage_may_come_nearer_to_the_others() -> None:
    (going,) = found_stages(work(0.4, 0.4, 0.4, 0.6))
    nearer = work(0.4, 0.4, 0.4, 0.46)
    assert found_stages(nearer) == ()
    assert [one.diagnosis_id for one in found_stages(nearer, going)] == [going.diagnosis_id]

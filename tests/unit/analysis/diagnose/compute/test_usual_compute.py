"""Usual work: what is remembered of how long ranks work, for how long, and what it is good for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime, measure_compute_time
from prism_ch.analysis.diagnose.compute.usual_compute import recall, remember
from prism_ch.model.finding import Finding
from prism_ch.model.memory import UsualComputeTime
from prism_ch.model.params import DiagnoseParams
from tests.unit.analysis.build import BEGIN_NS, Flow, division, every, finding, links, ordered, topology, traffic, typed
from tests.unit.analysis.diagnose.compute.accused import accused

PARAMS = DiagnoseParams()
STEPS, SECOND = 16, 10**9
DIVIDED, WHERE = division(range(4), every(1000, STEPS, 1000)), topology(2, 2)
NOBODY = UsualComputeTime()


def two_stages(period_ms: float, answer_ms: float = 110, usual: UsualComputeTime = NOBODY) -> ComputeTime:
    """The work of two pairs of ranks, of which one sends every so often, and the other answers so much later."""
    flows = [
        Flow(*way, 1000 * step + 100 + period_ms * turn + after, 20 if after else 4)
        for step in range(STEPS)
        for turn in range(5)
        for rank in range(2)
        for way, after in (((rank, rank + 2), 0), ((rank + 2, rank), answer_ms))
    ]
    seen = traffic(flows)
    kinds = typed(seen, links(([0, 1], [2, 3])))
    (work,) = measure_compute_time(
        seen, kinds, DIVIDED, ordered(seen, kinds, DIVIDED, WHERE), WHERE, PARAMS.compute, usual.needs
    )
    return work


def kept(usual: UsualComputeTime, work: ComputeTime, slow: Sequence[Finding] = ()) -> UsualComputeTime:
    return remember(usual, (work,), slow, DIVIDED, WHERE, PARAMS.compute)


def worked(seconds: float) -> ComputeTime:
    each = np.arange(4, dtype=np.int32)
    return ComputeTime(each, each, np.full((4, STEPS), seconds), each, each, absolute=True)


def test_what_was_found_is_remembered_for_an_hour() -> None:
    first = kept(NOBODY, worked(1.0))
    assert first.seconds == dict.fromkeys(WHERE.endpoints, 1.0)
    assert kept(first, worked(2.0)) == first
    old = replace(first, found_ns=BEGIN_NS - (PARAMS.compute.remembered_s + 1) * SECOND)
    assert set(kept(old, worked(2.0)).seconds.values()) == {2.0}
    assert kept(old, worked(2.0), (finding(kind="slow_gpu", status="open"),)) == old
    assert set(kept(old, worked(2.0), (finding(kind="slow_gpu", status="closed"),)).seconds.values()) == {2.0}


def test_a_window_that_measures_nothing_forgets_nothing() -> None:
    first = kept(NOBODY, worked(1.0))
    assert remember(first, (), (), DIVIDED, WHERE, PARAMS.compute) == first
    assert kept(first, worked(np.nan)) == first
    assert kept(first, replace(worked(1.0), absolute=False)) == first


def test_who_joins_is_remembered_beside_the_others() -> None:
    alone = replace(NOBODY, found_ns=BEGIN_NS, seconds={"10.0.101.0": 1.0, "gone": 3.0})
    assert kept(alone, worked(2.0)).seconds == dict.fromkeys(WHERE.endpoints, 2.0) | {"10.0.101.0": 1.0}


def test_early_input_of_a_late_rank_is_not_needed() -> None:
    """An output needs the answer to the last but one. It comes after the next output, if these follow fast.

    What comes so late that no operation fits between it and an output is not taken for needed in any case.
    """
    healthy = two_stages(70, 60)
    assert healthy.needs["0>1<1"] == two_stages(130, 60).needs["0>1<1"] == [-1, -1, 0, 1, 2]
    usual = kept(NOBODY, healthy)
    alone, knowing = two_stages(180, 60), two_stages(180, 60, usual)
    assert alone.needs["0>1<1"] == [-1, 0, 1, 2, 3]
    work_s = [float(np.nanmedian(work.seconds[0])) for work in (healthy, alone, knowing)]
    assert work_s == pytest.approx([0.1 + 0.07 + 3 * 0.06, 0.1 + 4 * 0.1, 0.1 + 4 * 0.18], abs=1e-6)
    (one,) = accused((knowing,), DIVIDED, WHERE, usual_s=recall(usual, (knowing,), WHERE))
    assert (one.subject, one.status) == ("host-00", "open")
    assert accused((alone,), DIVIDED, WHERE) == ()


def test_compute_time_not_recalled_when_measured_otherwise() -> None:
    """An answer seemed to wait for the next output, which always came before it, and does not when that comes later."""
    healthy = two_stages(60)
    usual = kept(NOBODY, healthy)
    later = two_stages(150, usual=usual)
    assert (healthy.needs["1>0<0"], later.needs["1>0<0"]) == ([1, 2, 3, 4, 4], [0, 1, 2, 3, 4])
    assert recall(usual, (later,), WHERE).keys() == {0, 1}
    again = kept(usual, later)
    assert [again.seconds[one] for one in ("10.0.100.0", "10.0.101.0")] == pytest.approx(
        np.nanmedian(later.seconds[[0, 2]], axis=1)
    )
    assert recall(again, (two_stages(150, usual=again),), WHERE).keys() == {0, 1, 2, 3}

"""Holes: several sources that fall silent at once are missing records, one alone may stand still."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prism_ch.analysis.observe.holes import Hole, find_holes, hidden_by, unseen
from prism_ch.model.params import Params
from prism_ch.model.window import Interval
from tests.unit.analysis.build import BEGIN_NS, Flow, batch, every, renamed, ring

SECOND = 10**9
PARAMS = Params().stops
ONE, TWO = np.arange(4, dtype=np.int32), np.arange(4, 8, dtype=np.int32)


def first(until_s: float = 60, exporter: str = "a") -> list[Flow]:
    """A job of four with steps of a second, silent from then on, until a minute has passed."""
    ends_ms = [end for end in every(1000, 60, 1000) if end < until_s * 1000]
    return by(exporter, ring(range(4), ends_ms))


def second(until_s: float = 60, exporter: str = "a") -> list[Flow]:
    """Another job, with steps of 0.7 s."""
    ends_ms = [end for end in every(700, 85, 700) if end < until_s * 1000]
    return by(exporter, renamed(ring(range(4), ends_ms), [4, 5, 6, 7]))


def by(exporter: str, flows: Sequence[Flow]) -> list[Flow]:
    return [Flow(f.src, f.dst, f.start_ms, f.length_ms, f.size, exporter) for f in flows]


def holes(flows: Sequence[Flow], until_s: float = 60) -> tuple[Hole, ...]:
    return find_holes(batch(flows), BEGIN_NS + round(until_s * SECOND), [ONE, TWO], PARAMS)


def seconds(hole: Hole) -> tuple[float, float]:
    return (hole.span.start_ns - BEGIN_NS) / SECOND, (hole.span.end_ns - BEGIN_NS) / SECOND


def test_two_jobs_that_fall_silent_together_are_not_seen() -> None:
    (hole,) = holes([*first(30), *second(30)])
    assert (hole.is_sure, hole.is_total, hole.is_open, hole.exporters) == (True, True, True, ("a",))
    assert seconds(hole) == pytest.approx((29.4, 60), abs=0.1)


def test_a_hole_ends_with_the_next_record() -> None:
    later = [flow for flow in [*first(), *second()] if not 30_000 < flow.start_ms + flow.length_ms < 42_100]
    (hole,) = holes(later)
    assert (hole.is_sure, hole.is_open) == (True, False)
    assert seconds(hole) == pytest.approx((30, 42.7), abs=0.4)


def test_one_job_that_falls_silent_may_stand_still() -> None:
    assert holes([*first(30), *second()]) == ()
    (alone,) = holes(first(30))
    assert (alone.is_sure, alone.is_total) == (False, True)


def test_jobs_that_stopped_one_after_the_other_are_no_hole() -> None:
    assert [one.is_sure for one in holes([*first(20), *second(40)])] == [False]


def test_jobs_that_share_endpoints_are_one_source() -> None:
    again = renamed(first(30), [2, 3, 4, 5])
    found = find_holes(batch([*first(30), *again]), BEGIN_NS + 60 * SECOND, [ONE, ONE + 2], PARAMS)
    assert [one.is_sure for one in found] == [False]


def test_what_a_job_saves_after_it_stopped_is_no_other_source() -> None:
    saved = by("a", [Flow(member, 9, at_ms) for member in range(4) for at_ms in every(100, 20, 29_000)])
    assert holes([*first(29), *saved]) == ()
    (cut,) = holes([*first(31), *saved])
    assert not cut.is_sure


def test_pauses_that_jobs_are_used_to_are_no_hole() -> None:
    """One job pauses for 7 s every 15 s, the other for 9 s each 22 s; at 37 s both do."""
    one = [end for turn in range(4) for end in every(1000, 8, 1000 + 15_000 * turn)]
    other = [end for turn in range(3) for end in every(1000, 13, 1000 + 22_000 * turn)]
    found = holes([*by("a", ring(range(4), one)), *by("a", renamed(ring(range(4), other), [4, 5, 6, 7]))], 57)
    assert [each for each in found if each.is_sure] == []


def test_exporters_of_some_jobs_may_be_silent_while_others_send() -> None:
    other = by("b", renamed(ring(range(4), every(900, 66, 900)), [8, 9, 10, 11]))
    members = [ONE, TWO, np.arange(8, 12, dtype=np.int32)]
    read = batch([*first(30), *second(30), *other])
    (hole,) = find_holes(read, BEGIN_NS + 60 * SECOND, members, PARAMS)
    assert (hole.is_sure, hole.is_total, hole.exporters) == (True, False, ("a",))
    assert hole.hides(["a"])
    assert not hole.hides(["a", "b"])
    hidden, around = hidden_by(read, hole.exporters, hole.span)
    assert (hidden.tolist(), len(around)) == (list(range(8)), 12)


def test_steps_that_a_hole_cuts_are_masked() -> None:
    hole = Hole(("a",), True, Interval(25, 40), is_open=False, is_sure=True)
    ends = np.array([10, 20, 30, 40, 50])
    assert unseen(ends - 10, ends, [hole]).tolist() == [False, False, True, True, False]


def test_nothing_is_found_without_records() -> None:
    assert holes([]) == ()

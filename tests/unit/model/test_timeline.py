"""Packed phases are the phases that were packed, in far less memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.model.result import PackedTimeline, Timeline
from tests.unit.analysis.build import BEGIN_NS

#: GPU-steps by their phases: kind and length of each.
PHASES_OF = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2**33)), min_size=1, max_size=4)


def tiled(endpoint: int, first_step: int, steps: list[list[tuple[int, int]]], start_ns: int = BEGIN_NS) -> Timeline:
    """The phases of one endpoint that follow on one another."""
    phases = [(first_step + place, *one) for place, step in enumerate(steps) for one in step]
    ends = start_ns + np.cumsum([0, *(length for _, _, length in phases)], dtype=np.int64)
    number, kind = ([one[place] for one in phases] for place in (0, 1))
    return Timeline(
        np.full(len(phases), endpoint), np.array(number, np.int64), np.array(kind, np.uint8), ends[:-1], ends[1:]
    )


def assert_equal(found: Timeline, wanted: Timeline) -> None:
    for name in ("endpoint", "step", "phase", "start_ns", "end_ns"):
        assert getattr(found, name).tolist() == getattr(wanted, name).tolist(), name


@given(st.lists(st.lists(PHASES_OF, max_size=3), max_size=3))
def test_rows_are_the_phases_that_were_packed(endpoints: list[list[list[tuple[int, int]]]]) -> None:
    rows = Timeline.concat([Timeline.empty(), *(tiled(number, 3, steps) for number, steps in enumerate(endpoints))])
    packed = PackedTimeline.of(rows)
    assert len(packed) == len(rows)
    assert_equal(packed.rows(), rows)


@given(st.lists(PHASES_OF, min_size=1, max_size=3), st.lists(PHASES_OF, min_size=1, max_size=3))
def test_attempts_are_put_in_the_order_of_endpoints(
    one: list[list[tuple[int, int]]], other: list[list[tuple[int, int]]]
) -> None:
    later_ns = BEGIN_NS + 2**40
    parts = [
        Timeline.concat([tiled(0, step, steps, start_ns), tiled(1, step, steps, start_ns)])
        for step, steps, start_ns in ((0, one, BEGIN_NS), (7, other, later_ns))
    ]
    found = PackedTimeline.concat([PackedTimeline.of(part) for part in parts])
    rows = Timeline.concat(parts)
    assert_equal(found.rows(), rows.take(np.lexsort((rows.start_ns, rows.endpoint))))


@pytest.mark.parametrize("longest_ns, row_bytes", [(4 * 10**9, 5), (5 * 10**9, 9)])
def test_a_phase_takes_few_bytes_unless_it_is_long(longest_ns: int, row_bytes: int) -> None:
    packed = PackedTimeline.of(tiled(0, 0, [[(0, 1), (1, longest_ns)]]))
    assert packed.phase.itemsize + packed.length_ns.itemsize == row_bytes

"""Arrows join the phases in which a message began and ended, and lead forward."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.export.arrows import Arrows, Chunk
from prism_ch.export.messages import Sent
from prism_ch.export.reader import Phases

#: A message: sender, receiver, start and length.
_Message = tuple[int, int, int, int]


def chunk(*rows: tuple[int, int, int]) -> Chunk:
    """Phases as (endpoint, start, end), in order."""
    endpoint, start, end = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    none = np.zeros(len(rows), dtype=np.int64)
    return Chunk(Phases(endpoint.astype(np.int32), none, none.astype(np.uint8), start, end))


def sent(messages: list[_Message]) -> Sent:
    src, dst, start, length = np.array(messages, dtype=np.int64).reshape(-1, 4).T
    return Sent(src.astype(np.int32), dst.astype(np.int32), start, start + length, np.ones(len(src), dtype=np.int64))


def ends(*chunks: Chunk) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """The arrows as phases (endpoint, start, end) of both ends, by flow."""
    found: list[dict[int, tuple[int, int, int]]] = [{}, {}]
    for each in chunks:
        for known, parts in zip(found, (each.leaving, each.entering), strict=True):
            for rows, flows in parts:
                for row, flow in zip(rows.tolist(), flows.tolist(), strict=True):
                    assert flow not in known
                    phases = each.phases
                    known[flow] = (
                        int(phases.endpoint[row]),
                        int(phases.start_ns[row]),
                        int(phases.end_ns[row]),
                    )
    assert found[0].keys() == found[1].keys()
    return [(found[0][flow], found[1][flow]) for flow in sorted(found[0])]


def test_an_arrow_enters_what_begins_when_a_message_ends() -> None:
    held, new = chunk((0, 0, 10), (0, 10, 20), (0, 20, 30), (1, 0, 10), (1, 10, 20), (1, 20, 30)), chunk()
    arrows = Arrows()
    arrows.attach(sent([(0, 1, 10, 10)]), held, new)
    assert ends(held) == [((0, 10, 20), (1, 20, 30))]
    assert arrows.drawn == 1


def test_an_arrow_enters_the_next_phase_where_that_began_first() -> None:
    held, new = chunk((0, 0, 10), (0, 10, 20), (1, 0, 30), (1, 30, 40)), chunk()
    Arrows().attach(sent([(0, 1, 10, 10)]), held, new)
    assert ends(held) == [((0, 10, 20), (1, 30, 40))]


def test_an_arrow_leads_from_one_chunk_into_the_next() -> None:
    first, second, third = chunk((0, 0, 10), (1, 0, 10)), chunk((0, 10, 20), (1, 10, 20)), chunk((1, 20, 30))
    arrows = Arrows()
    arrows.attach(sent([(0, 1, 5, 5)]), first, second)
    arrows.attach(sent([(0, 1, 12, 8)]), second, third)
    assert ends(first, second, third) == [((0, 0, 10), (1, 10, 20)), ((0, 10, 20), (1, 20, 30))]


def test_a_message_waits_for_the_phase_that_it_ends_in() -> None:
    first, second, third = chunk((0, 0, 10), (1, 0, 10)), chunk((0, 10, 20)), chunk((1, 20, 30))
    arrows = Arrows()
    arrows.attach(sent([(0, 1, 12, 8)]), first, second)
    assert arrows.drawn == 0
    arrows.attach(sent([]), second, third)
    assert ends(first, second, third) == [((0, 10, 20), (1, 20, 30))]


def test_a_message_outside_all_phases_has_no_arrow() -> None:
    held, new = chunk((0, 10, 20), (1, 10, 20)), chunk((0, 20, 30))
    arrows = Arrows()
    arrows.attach(sent([(0, 1, 5, 10), (0, 1, 12, 100), (2, 1, 12, 2), (0, -1, 12, 2)]), held, new)
    arrows.attach(sent([]), new, chunk())
    assert (ends(held, new), arrows.drawn) == ([], 0)


@st.composite
def _tiled(draw: st.DrawFn) -> tuple[list[Chunk], list[list[_Message]]]:
    """Phases of some endpoints that tile the time, cut into chunks, and messages by the chunk they are read with."""
    chunks, at = [], [draw(st.integers(0, 3)) for _ in range(3)]
    for _ in range(draw(st.integers(1, 4))):
        rows = []
        for endpoint in range(3):
            for length in draw(st.lists(st.integers(0, 6), max_size=5)):
                rows.append((endpoint, at[endpoint], at[endpoint] + length))
                at[endpoint] += length
        chunks.append(chunk(*rows))
    message = st.tuples(st.integers(-1, 3), st.integers(-1, 3), st.integers(0, max(at)), st.integers(0, 10))
    return chunks, [draw(st.lists(message, max_size=8)) for _ in chunks]


@given(_tiled())
def test_arrows_are_matched_and_lead_forward(made: tuple[list[Chunk], list[list[_Message]]]) -> None:
    chunks, messages = made
    arrows, held = Arrows(), chunk()
    for new, found in zip([*chunks, chunk()], [*messages, []], strict=True):
        arrows.attach(sent(found), held, new)
        held = new
    drawn = ends(*chunks)
    assert len(drawn) == arrows.drawn
    every = [message for part in messages for message in part]
    for source, target in drawn:
        assert source[1] < target[1]
        assert any(
            (src, dst) == (source[0], target[0]) and source[1] <= start < source[2] and start + length <= target[2]
            for src, dst, start, length in every
        )


@given(_tiled())
def test_all_in_one_chunk_finds_no_fewer_arrows(made: tuple[list[Chunk], list[list[_Message]]]) -> None:
    chunks, messages = made
    in_parts, held = Arrows(), chunk()
    for new, found in zip([*chunks, chunk()], [*messages, []], strict=True):
        in_parts.attach(sent(found), held, new)
        held = new
    rows = sorted(
        (int(p.endpoint[row]), place, row, int(p.start_ns[row]), int(p.end_ns[row]))
        for place, p in enumerate(each.phases for each in chunks)
        for row in range(len(p))
    )
    at_once = Arrows()
    every = [message for part in messages for message in part]
    at_once.attach(sent(every), chunk(*((endpoint, start, end) for endpoint, _, _, start, end in rows)), chunk())
    assert in_parts.drawn <= at_once.drawn

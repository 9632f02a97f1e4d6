"""Strays: one link of a pipeline that ends a step at another moment than the others lost messages."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.steps.link_balance import without_strays
from prism_ch.analysis.steps.sequences import Sequences, links, read_sequences
from prism_ch.model.columns import Int64
from prism_ch.model.params import DivideParams
from tests.unit.analysis.build import BEGIN_NS, MS, every, pipeline, traffic

PARAMS = DivideParams()
STARTS = every(1000, 10)
SEEN = traffic([flow for pair in range(8) for flow in pipeline([2 * pair, 2 * pair + 1], STARTS, microbatches=4)])
#: Each link is a pipeline of its own, as on as many rails.
CHAIN = np.arange(8, dtype=np.int32)


def read() -> tuple[Sequences, Int64]:
    """Eight links of as many pipelines, and when each of their steps ends."""
    sequences = read_sequences(SEEN, links(SEEN), PARAMS)
    bounds = np.array([*STARTS[1:], 10_000]) * MS + BEGIN_NS
    ends = [
        [sequences.end_ns[(sequences.line == line) & (sequences.end_ns < bound)].max() for bound in bounds]
        for line in range(8)
    ]
    return sequences, np.array(ends)


def test_links_that_end_together_stay_as_they_are() -> None:
    sequences, ends = read()
    np.testing.assert_array_equal(without_strays(sequences, ends, CHAIN, PARAMS), ends)


def test_a_link_that_ends_a_step_late_by_itself_ended_it_with_its_last_message_before() -> None:
    sequences, ends = read()
    strayed = ends.copy()
    strayed[3, 4] += 200 * MS
    np.testing.assert_array_equal(without_strays(sequences, strayed, CHAIN, PARAMS), ends)


def test_links_that_are_late_together_were_held_up() -> None:
    sequences, ends = read()
    late = ends.copy()
    late[2:6, 4] += 200 * MS
    np.testing.assert_array_equal(without_strays(sequences, late, CHAIN, PARAMS), late)


def test_links_of_one_pipeline_that_are_late_together_lost_messages_on_its_rail() -> None:
    sequences, ends = read()
    strayed = ends.copy()
    strayed[2:6, 4] += 200 * MS
    chain = np.array([0, 1, 2, 2, 2, 2, 3, 4], dtype=np.int32)
    np.testing.assert_array_equal(without_strays(sequences, strayed, chain, PARAMS), ends)


def test_a_link_keeps_its_usual_distance() -> None:
    sequences, ends = read()
    first = ends.copy()
    first[0] -= 200 * MS
    np.testing.assert_array_equal(without_strays(sequences, first, CHAIN, PARAMS), first)


def test_of_a_single_step_nobody_can_tell() -> None:
    sequences, ends = read()
    np.testing.assert_array_equal(without_strays(sequences, ends[:, :1], CHAIN, PARAMS), ends[:, :1])

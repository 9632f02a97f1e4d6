"""Which way pipelines run whose links pass one message to and fro.

Of one microbatch a link shows an activation and its gradient, and nothing tells one from the other. Where servers hold
several stages their links do not touch, either. But a message comes to one link after another: on its way to the last
stage forward passes lie between two links, and on its way back the same stages' backward passes, twice as long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int32
from prism_ch.model.params import DivideParams


@dataclass(frozen=True, slots=True)
class SingleMessages:
    """Links that all pass one message to and fro.

    `turned` bool[links] masks those whose ways are called the other way round than on the others; `haste` is by how
    much messages come sooner from link to link downward than upward, log.
    """

    turned: Bool
    haste: float


def read_single_messages(sequences: Sequences, downward: Bool, params: DivideParams) -> SingleMessages | None:
    """Compare links of pipelines by when messages pass them.

    Parameters: `sequences`, of the links; `downward` bool[n], which way most of a burst goes. Returns None unless most
    links pass messages to and fro, at more than one place of their pipelines.

    1. Look at when messages come between those of a reference, the link that passes most.
    2. A link that passes both of its messages after one of the reference's, and before the next, is farther down or up:
       what the reference has just passed comes to it next. Another is at the same place, and passes the same as the
       reference does at about that time.
    3. Compare how long messages take from link to link either way.
    """
    links, counts = len(sequences), np.diff(sequences.offsets)
    rows = sequences.rows(int(np.argmax(counts)))
    if counts.max() < 2 * params.repeats or not _go_to_and_fro(sequences, downward, params):
        return None
    own_ns, own_down = sequences.start_ns[rows], downward[rows]
    before = np.searchsorted(own_ns, sequences.start_ns, side="right") - 1
    inside = (before >= 0) & (before < len(own_ns) - 1)
    at, moment_ns = before[inside], sequences.start_ns[inside]
    way = 2 * sequences.line[inside] + downward[inside]  # up and down are columns of all that follows
    since_ns, until_ns = moment_ns - own_ns[at], own_ns[at + 1] - moment_ns
    since_s, until_s = (robust.median_by(way, gap / 1e9, 2 * links).reshape(links, 2) for gap in (since_ns, until_ns))
    after_down = _share_of_ways(way, own_down[at], links)
    near_down = _share_of_ways(way, own_down[at] == (since_ns <= until_ns), links)
    is_below, is_above = (after_down > params.half).all(axis=1), (after_down < params.half).all(axis=1)
    first, link = np.argmin(since_s, axis=1), np.arange(links)
    turned = np.where(is_below, first == 0, np.where(is_above, first == 1, near_down[:, 1] <= near_down[:, 0]))
    there_s, back_s = since_s[link, first], until_s[link, 1 - first]
    downward_s, upward_s = np.where(is_below, (there_s, back_s), (back_s, there_s))
    step_s = 2 * float(np.median(np.diff(own_ns))) / 1e9
    apart = (is_below | is_above) & (downward_s + upward_s > params.little * step_s)
    if not apart.any():
        return None
    up_s, down_s = (max(float(each[apart].sum()), 1e-9) for each in (upward_s, downward_s))
    return SingleMessages(turned, math.log(up_s / down_s))


def _go_to_and_fro(sequences: Sequences, downward: Bool, params: DivideParams) -> bool:
    """Return whether each message of most links goes the other way than the one before."""
    line = sequences.line[1:]
    follows = line == sequences.line[:-1]
    turns = follows & (downward[1:] != downward[:-1])
    count = np.bincount(line, follows, len(sequences))
    return bool(np.median(np.bincount(line, turns, len(sequences)) / np.maximum(count, 1)) > params.nearly_all)


def _share_of_ways(way: Int32, is_so: Bool, links: int) -> Float64:
    """Return for what share of a link's messages something is so, by way, float64[links, 2]."""
    count = np.bincount(way, minlength=2 * links)
    return (np.bincount(way, is_so, 2 * links) / np.maximum(count, 1)).reshape(links, 2)

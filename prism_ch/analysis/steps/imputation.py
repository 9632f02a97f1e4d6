"""Made up: what a communicator moved, where records of some of its pairs are lost.

Pairs of one communicator that move about as much do so in the same bursts. Where most of them take part in one, those
that are short or missing have moved what the others have. That holds where all of them begin and end together, but not
where some are so late that they seem to be a burst of their own: it is believed only where it makes steps more alike.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_ch.analysis.steps.proposals import propose
from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.analysis.steps.step_volume import usual_step
from prism_ch.core import intervals, robust
from prism_ch.core.arrays import run_starts
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import DivideParams
from prism_ch.model.traffic import Traffic

#: Pairs of a link, both of which move at once in a collective: one is enough to tell of the other.
_BOTH_WAYS = 2


def impute(
    sequences: Sequences, traffic: Traffic, communicator: Int32, follows: Float64, params: DivideParams
) -> Sequences:
    """Return the sequences with what their bursts moved, lost records included, where that makes steps more alike.

    Parameters: `traffic`, the closing bursts that the sequences were read from, and the `communicator` int32[pairs] of
    its pairs; `follows` float64[n], see `Beside.follows`. Of a sequence's last burst more may yet come: it stays.
    """
    whole = _whole_payload(traffic, communicator, params)
    last = sequences.offsets[1:] - 1
    whole[last] = sequences.payload[last]
    if np.array_equal(whole, sequences.payload):
        return sequences
    _, proposals = propose(sequences, follows, params)
    imputed = replace(sequences, payload=whole)
    (_, before, _), (_, after, _) = (usual_step(each, proposals, follows, params) for each in (sequences, imputed))
    better = after > before + params.regularity_margin
    return replace(sequences, payload=np.where(better[sequences.line], whole, sequences.payload))


def _whole_payload(traffic: Traffic, communicator: Int32, params: DivideParams) -> Float64:
    """Return what moves in each burst of a communicator, float64[bursts], in bytes; of each class what most show."""
    pairs = len(traffic.pair_src)
    burst = intervals.merge(communicator[traffic.pair], traffic.start_ns, traffic.end_ns, params.burst_gap_ns).owner
    cells, cell = np.unique(burst * pairs + traffic.pair, return_inverse=True)
    moved = np.bincount(cell, weights=traffic.payload)
    total = np.bincount(traffic.pair, weights=traffic.payload, minlength=pairs)
    alike = robust.size_classes(total, params.same_volume, communicator)
    of_burst, of_class = cells // pairs, alike[cells % pairs]
    order = np.lexsort((moved, of_burst, of_class))
    moved, of_burst, of_class = moved[order], of_burst[order], of_class[order]
    first = run_starts(of_class, of_burst)
    taking_part = np.diff(np.append(first, len(order)))
    members = np.bincount(alike)[of_class[first]]
    most = (2 * taking_part > members) | (members == _BOTH_WAYS)
    on_time = most & ~_beside_few(most, of_class[first], of_burst[first])
    whole = np.where(on_time, members * moved[first + taking_part // 2], np.add.reduceat(moved, first))
    return np.bincount(of_burst[first], weights=whole).astype(np.float64)


def _beside_few(most: Bool, of_class: Int32, of_burst: Int64) -> Bool:
    """Mask the bursts next to one in which few of a class take part: those are late or early, and not lost, bool[n].

    Parameters: [n] each, sorted by class and burst, `most` saying where most of a class take part.
    """
    follows = (of_class[1:] == of_class[:-1]) & (of_burst[1:] == of_burst[:-1] + 1)
    beside = np.zeros(len(most), dtype=bool)
    beside[:-1] |= follows & ~most[1:]
    beside[1:] |= follows & ~most[:-1]
    return beside

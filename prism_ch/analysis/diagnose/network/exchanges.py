"""Exchanges inside operations: which pairs are slow in them, and by how much that lengthens them.

Experts exchange all with all on pairs that carry gradients as well. A ring of gradients moves as fast as its slowest
link, whichever that is; of an exchange each pair shows its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.diagnose.compute.lateness import joined_by
from prism_ch.core import robust
from prism_ch.core.arrays import run_lengths, run_places, run_starts
from prism_ch.model.columns import Float64, Int32
from prism_ch.model.job import Division, PairKinds
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.result import INNER
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Exchanges:
    """What pairs, `src` and `dst` int32[p], exchange inside operations.

    `excess` float64[p, k] is the logarithm of how many times longer than most each takes for its bytes in each step,
    NaN where it has none; `longer_s` float64[k], how much longer the exchanges of a step take with slow pairs.
    """

    src: Int32
    dst: Int32
    excess: Float64
    longer_s: Float64

    @classmethod
    def none(cls, steps: int) -> Exchanges:
        """Return that nothing is exchanged."""
        nobody = np.empty(0, dtype=np.int32)
        return cls(nobody, nobody, np.empty((0, steps)), np.zeros(steps))


def measure_exchanges(traffic: Traffic, kinds: PairKinds, division: Division, params: TimePerByteParams) -> Exchanges:
    """Measure the exchanges inside operations of an attempt.

    1. Compare the time per byte of each pair with that of most in the same step.
    2. Count off the exchanges on each pair. Each ends with its slowest, and without slow pairs with the slowest other:
       sum that over a step, of the communicator in which it is most.
    """
    bursts = traffic.take(np.isin(kinds.burst, INNER))
    step = division.step_of(division.rows_of(bursts.src), bursts.end_ns - 1)
    bursts, step = bursts.take(step < division.steps), step[step < division.steps]
    cell = bursts.pair.astype(np.int64) * division.steps + step  # sorted: bursts of a pair are in order
    starts = run_starts(cell)
    if not len(starts):
        return Exchanges.none(division.steps)
    counts = run_lengths(starts, len(cell))
    lasts_s = (bursts.end_ns - bursts.start_ns) / 1e9
    s_per_byte = np.add.reduceat(lasts_s, starts) / np.add.reduceat(bursts.payload, starts)
    usual = robust.median_by(step[starts].astype(np.int32), s_per_byte, division.steps)[step[starts]]
    # Of a step most of whose exchanges take less than a tick of the clock, none shows that it is slow.
    times = np.divide(s_per_byte, usual, out=np.full(len(usual), np.nan), where=usual > 0)
    pairs, pair = np.unique(bursts.pair[starts], return_inverse=True)
    excess = np.full((len(pairs), division.steps), np.nan)
    excess[pair, step[starts]] = np.log(np.where(times > 0, times, np.nan))
    quick = np.repeat(~(times > 1 + params.network_excess), counts)
    label = joined_by(bursts.pair_src, bursts.pair_dst, division)[division.rows_of(bursts.src)]
    shape = int(label.max()) + 1, division.steps, int(counts.max())
    longest_s, without_s = np.zeros(shape), np.zeros(shape)
    exchange = label, step, run_places(starts, len(cell))
    np.maximum.at(longest_s, exchange, lasts_s)
    np.maximum.at(without_s, tuple(each[quick] for each in exchange), lasts_s[quick])
    longer_s = (longest_s - without_s).sum(axis=2).max(axis=0)
    return Exchanges(bursts.pair_src[pairs], bursts.pair_dst[pairs], excess, longer_s)

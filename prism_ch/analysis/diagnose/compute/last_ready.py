"""Who kept the others waiting in each step, as far as records tell.

Some rank is always the last one. It keeps the others waiting only if it computes longer than is usual, by more than
ranks differ anyway; and ranks that wait for one another inside a server are late together, so that any of them may be
the one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.diagnose.compute.comparison import Comparison
from prism_ch.analysis.diagnose.compute.slow_gpus import ranks_together
from prism_ch.analysis.diagnose.findings import Place
from prism_ch.core import robust
from prism_ch.core.significance import spread_of
from prism_ch.model.columns import Bool, Float64, Ragged, ragged
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.topology import Topology


@dataclass(frozen=True, slots=True)
class LastReady:
    """Who kept the others waiting in each step, Ragged[steps], and by how long they are late.

    `late_s` float64[steps]: seconds by which they compute longer than usual, NaN where nobody is named.
    """

    endpoints: Ragged
    late_s: Float64


def find_last_ready(
    comparisons: Iterable[Comparison], division: Division, slow: Sequence[Finding], place: Place, topology: Topology
) -> LastReady:
    """List the endpoints that kept the others waiting in each step.

    Parameters: `comparisons` of the ranks' compute times, best measure first; `slow`, the GPUs found to be slow.

    1. Steps in which a GPU was found to be slow waited for that.
    2. In others, a rank is late that computes longer than others, or than before, by more than ranks differ.
    3. Those of its server that are late alike may be the one as well. If others are, nobody is named.
    """
    named: list[tuple[int, ...]] = [()] * division.steps
    late_s = np.full(division.steps, np.nan)
    for finding in slow:
        first, last = (max(step - place.first_step, 0) for step in (finding.first_step, finding.last_step))
        members = tuple(topology.index[address] for address in finding.about if address in topology.index)
        named[first : last + 1] = [members] * len(named[first : last + 1])
        late_s[first : last + 1] = finding.observed - finding.expected
    for compared in comparisons:
        late = _late(compared, place.params)
        for step in np.flatnonzero(late.any(axis=0)).tolist():
            if not named[step]:
                named[step], late_s[step] = _late_together(compared, step, late[:, step], topology, place.params)
    return LastReady(ragged(named), late_s)


def _late(compared: Comparison, params: DiagnoseParams) -> Bool:
    """Mask the ranks that compute longer than usual by more than ranks differ, bool[m, k].

    A rank that always does is slow, or its work is more: the findings tell.
    """
    always: Float64 = np.nan_to_num(robust.median(compared.excess, axis=1))
    excess: Float64 = np.nan_to_num(compared.excess - always.clip(0)[:, None])
    late = np.zeros(excess.shape, dtype=bool)
    for group in np.unique(compared.among).tolist():
        rows = np.flatnonzero(compared.among == group)
        least = max(params.min_score * spread_of(compared.excess[rows], params.compute_jitter), params.notable)
        late[rows] = excess[rows] >= least
    return late


def _late_together(
    compared: Comparison, step: int, late: Bool, topology: Topology, params: DiagnoseParams
) -> tuple[tuple[int, ...], float]:
    """List the ranks that are late together in a step, and by how many seconds.

    Parameters: `late` bool[m]. What is late by less waits for them. Nobody is listed if they don't belong together.
    A first stage shows only a part of what it computes, as no message follows its backward: a rank is slower by as much
    in all of it, which is taken to be as long as what the stage computes that shows most.
    """
    extra_s = np.where(late, compared.times.seconds[:, step] - compared.usual[:, step], 0.0)
    row = int(np.argmax(extra_s))
    alike = extra_s >= params.half * extra_s[row]
    members = ranks_together(compared.times, row, alike, topology)
    if np.count_nonzero(alike) > len(members) or len(members) > compared.most[row]:
        return (), np.nan
    usual_s = compared.usual[:, step]
    whole = np.nanmax(usual_s) / usual_s[row] if compared.times.absolute and usual_s[row] > 0 else 1.0
    return tuple(compared.times.endpoints[members].tolist()), float(extra_s[row] * whole)

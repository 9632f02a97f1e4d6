"""Delay: how much longer the ways of a job take for their bytes than others like them, or than before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.network.time_per_byte import TimePerByte
from prism_ch.core import robust
from prism_ch.core.significance import better_of_rows, low_median, spread_of
from prism_ch.model.columns import Bool, Float64
from prism_ch.model.finding import NETWORK_KINDS, Finding
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.topology import Topology

#: Communicators that show which of them is slow: none is quicker than the network.
_TWO = 2


@dataclass(frozen=True, slots=True)
class Delay:
    """Rows of TimePerByte compared: `excess` float64[n, k], logarithms over `usual` float64[n, k], and their `spread`.

    `to_past` bool[n] are the rows that are compared with themselves, not with others like them.
    """

    excess: Float64
    usual: Float64
    spread: Float64
    to_past: Bool

    def filled(self, other: Delay) -> Delay:
        """Return it with the rows of another for those that it can't compare."""
        unknown: Bool = np.asarray(np.isnan(self.excess).all(axis=1))
        return Delay(
            np.where(unknown[:, None], other.excess, self.excess),
            np.where(unknown[:, None], other.usual, self.usual),
            np.where(unknown, other.spread, self.spread),
            np.logical_or(unknown, self.to_past),
        )

    def as_quick_as(self, others: Bool, rows: Bool, times: TimePerByte) -> Delay:
        """Compare some rows, bool[n], with what `others`, bool[n], usually take for a byte."""
        usual = self.usual.copy()
        usual[rows] = robust.median(self.usual[others], axis=0)
        return replace(self, usual=usual, excess=np.where(rows[:, None], times.beyond(usual), self.excess))

    def reference(self, rows: Bool) -> str:
        """Describe what most of some rows, bool[n], were compared with."""
        return "before" if 2 * self.to_past[rows].sum() > rows.sum() else "others of the same size"


def over_peers(times: TimePerByte, params: TimePerByteParams) -> Delay:
    """Compare each row with the median of enough rows like it in each step.

    Where half of some communicators are slow, the others show what the network can do: of these it is the lower median,
    and two are enough. Where two of many are quicker as a rule, most are slow, and it is less by as much in the steps
    in which they are.
    """
    logs = times.log_s_per_byte
    usual, quicker = np.full(logs.shape, np.nan), np.zeros(logs.shape)
    for like in np.unique(times.like).tolist():
        rows = times.like == like
        alone = times.group[rows].min() < 0
        if rows.sum() < (params.enough if alone else _TWO):
            continue
        usual[rows] = robust.median(logs[rows], axis=0) if alone else low_median(logs[rows].T)
        if not alone:
            quicker[rows] = _quicker_by(logs[rows], params)
    usual -= quicker
    excess = times.beyond(usual)
    spread = np.empty(len(excess))
    for like in np.unique(times.like).tolist():
        rows = times.like == like
        spread[rows] = spread_of(excess[rows] - quicker[rows], params.network_jitter)
    return Delay(excess, usual, spread, np.zeros(len(excess), dtype=bool))


def _quicker_by(logs: Float64, params: TimePerByteParams) -> Float64:
    """Return by how much two communicators are quicker than most, float64[k].

    It is a logarithm for each step, 0 where that may be jitter, and as usual where a step does not show it.
    Parameters: `logs` float64[n, k], of seconds a byte, n >= 2.
    """
    as_a_rule = robust.median(logs, axis=1)
    quickest = np.argsort(as_a_rule, kind="stable")[:_TWO]
    by = float(low_median(as_a_rule) - as_a_rule[quickest[-1]])
    if len(logs) == _TWO or not by >= np.log1p(params.network_excess):
        return np.zeros(logs.shape[1])
    now = low_median(logs.T) - np.fmax.reduce(logs[quickest], axis=0)
    return np.asarray(np.clip(np.where(np.isnan(now), by, now), 0.0, by))


def over_past(times: TimePerByte, remembered: Float64, params: TimePerByteParams) -> Delay:
    """Compare each row of steady volume with its better steps, or with `remembered`, see `remembered_s_per_byte`."""
    logs = times.log_s_per_byte
    better = better_of_rows(np.exp(logs), params.reference_steps, params.network_jitter, params.min_score)
    own = np.fmin(np.log(better), remembered)
    usual = np.broadcast_to(own[:, None], logs.shape)
    excess = np.where(times.steady[:, None], times.beyond(usual), np.nan)
    # What has been slow for most of the time spreads no wider than its changes from step to step do.
    changes = np.diff(excess, axis=1) / np.sqrt(2)
    spread = np.fmax(robust.MAD_TO_SD * robust.median(np.abs(changes), axis=1), params.network_jitter)
    return Delay(excess, usual, spread, np.ones(len(excess), dtype=bool))


def remembered_s_per_byte(known: Sequence[Finding], times: TimePerByte, topology: Topology, job_id: str) -> Float64:
    """Return the logarithm of remembered usual seconds a byte, float64[n], else NaN."""
    usual: dict[str, float] = {}
    for finding in known:
        if finding.status == "open" and finding.kind in NETWORK_KINDS:
            usual |= finding.baseline.s_per_byte
    return np.array([np.log(usual[way]) if way in usual else np.nan for way in ways_of(times, topology, job_id)])


def ways_of(times: TimePerByte, topology: Topology, job_id: str) -> list[str]:
    """Name the rows: a pair by its ends, a communicator by its job and group."""
    names = [way_of_group(number, job_id) for number in times.group.tolist()]
    for row, src, dst in zip(times.row.tolist(), times.src.tolist(), times.dst.tolist(), strict=True):
        if times.group[row] < 0:
            names[row] = f"{topology.endpoints[src]}->{topology.endpoints[dst]}"
    return names


def way_of_group(number: int, job_id: str) -> str:
    """Name a communicator as a way."""
    return f"group {number} of {job_id}"

"""Agree: the communicators of a job step together, and one that lost records follows the others."""

from __future__ import annotations

import numpy as np

from prism_ch.core import robust
from prism_ch.model.columns import Bool, Int64
from prism_ch.model.params import DivideParams
from prism_ch.stages.divide.sequences import Sequences


def agree(sequences: Sequences, ends: Bool, params: DivideParams) -> Int64:
    """Return the end of each step of the job on each line, int64[lines, steps].

    Parameters: `ends` bool[n], the bursts with which a line ends a step by itself.
    Lines of one job end a step at different moments but at a steady distance. Ends are pooled after that distance is
    taken off; a moment that fewer than half of the lines confirm is no step; a line that misses one is given its
    usual distance. A step that some line may yet end, after the data, is left for later.
    """
    lines = len(sequences)
    line, end = sequences.line[ends], sequences.end_ns[ends]
    if len(end) == 0:
        return np.empty((lines, 0), dtype=np.int64)
    count = np.bincount(line, minlength=lines)
    reference = end[line == int(np.argmax(count))]
    step_ns = float(np.median(np.diff(reference))) if len(reference) > 1 else float(np.iinfo(np.int64).max)
    lag = np.nan_to_num(robust.median_by(line, _after_nearest(reference, end), lines)).astype(np.int64)
    moment = end - lag[line]
    order = np.argsort(moment, kind="stable")
    opens = np.concatenate([[True], np.diff(moment[order]) > params.agreement_share * step_ns])
    step = np.empty(len(order), dtype=np.int64)
    step[order] = np.cumsum(opens) - 1
    step = _join_delayed(line, step, moment, step_ns, params)[step]
    steps = int(step.max()) + 1
    result = np.full((lines, steps), np.iinfo(np.int64).min)
    np.maximum.at(result, (line, step), end)
    seen = result > np.iinfo(np.int64).min
    centre = robust.median_by(step.astype(np.int32), moment, steps).astype(np.int64)
    result = np.where(seen, result, centre[None, :] + lag[:, None])
    votes = count > 0
    confirmed = seen.sum(axis=0) >= params.quorum * votes.sum()
    awaited = ~seen & votes[:, None] & (result > sequences.end_ns.max() - params.agreement_share * step_ns)
    return result[:, confirmed & ~np.logical_or.accumulate(awaited.any(axis=0))]


def _after_nearest(reference: Int64, end: Int64) -> Int64:
    """Return how long after the nearest of the reference's ends each end is, in ns."""
    after = np.clip(np.searchsorted(reference, end), 1, max(len(reference) - 1, 1))
    before = np.maximum(after - 1, 0)
    after = np.minimum(after, len(reference) - 1)
    to_before, to_after = end - reference[before], end - reference[after]
    nearest: Int64 = np.where(np.abs(to_before) <= np.abs(to_after), to_before, to_after)
    return nearest


def _join_delayed(line: Int64, step: Int64, moment: Int64, step_ns: float, params: DivideParams) -> Int64:
    """Return the number of the step that each moment belongs to, int64[moments], rising.

    Parameters: `line`, `step`, `moment` int[n], of each end: its line, the number of its moment, and the time of that;
    `step_ns`, how long a step usually takes.
    A slow GPU delays the lines of its own stage beyond their usual distance. Neighbouring moments that have no line in
    common are one step, where the later one is clearly nearer to the earlier than to the next end of those lines.
    """
    moments = int(step.max()) + 1
    seen = np.zeros((moments, int(line.max()) + 1), dtype=bool)
    seen[step, line] = True
    centre = robust.median_by(step.astype(np.int32), moment, moments)
    number = np.arange(moments)
    in_common = (seen[1:] & seen[:-1]).any(axis=1)
    for later in np.flatnonzero(~in_common) + 1:
        first = int(np.searchsorted(number, number[later - 1]))
        again = np.flatnonzero((seen[later:] & seen[first:later].any(axis=0)).any(axis=1))
        until = centre[later + again[0]] if len(again) else centre[first] + step_ns
        if centre[later] - centre[first] < params.delay_share * (until - centre[first]):
            number[later:] -= 1
    return number

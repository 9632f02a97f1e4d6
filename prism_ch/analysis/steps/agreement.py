"""Agree: the communicators of a job step together, and one that lost records follows the others."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import DivideParams


def agree(sequences: Sequences, ends: Bool, params: DivideParams, chain: Int32 | None = None) -> Int64:
    """Return the end of each step of the job on each line, int64[lines, steps].

    Parameters: `ends` bool[n], the bursts with which a line ends a step by itself; `chain` int32[lines], the pipeline
    of each where lines are links of pipelines.
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
    step = _number(line, moment, step_ns, params)
    steps = int(step.max()) + 1
    result = np.full((lines, steps), np.iinfo(np.int64).min)
    np.maximum.at(result, (line, step), end)
    seen = result > np.iinfo(np.int64).min
    centre = robust.median_by(step.astype(np.int32), moment, steps).astype(np.int64)
    expected = centre[None, :] + lag[:, None]
    voting = (count > 0)[:, None]
    last_ns = sequences.end_ns[sequences.offsets[1:] - 1][:, None]
    # A line whose last burst ends when its step usually does has ended it, whatever records of it are lost.
    arrived = ~seen & (np.abs(last_ns - expected) < params.jitter_share * step_ns)
    silent = voting & ~seen & ~arrived & (result.max(axis=1)[:, None] < centre[None, :])
    if chain is not None:
        silent &= ~_overtaken(silent, seen, lag, chain, params)
    pending = _pending(silent, expected, int(sequences.end_ns.max()), step_ns, params)
    # ... but that it has tells half as much as a whole step.
    votes = seen.sum(axis=0) + (voting & arrived).sum(axis=0) / 2
    confirmed = (votes >= params.half * np.count_nonzero(voting)) & ~pending
    return np.where(seen, result, np.where(arrived, last_ns, expected))[:, confirmed]


def _overtaken(silent: Bool, seen: Bool, lag: Int64, chain: Int32, params: DivideParams) -> Bool:
    """Mask the ends of steps that only lost records hide, bool[lines, steps].

    Parameters: `silent`, `seen` bool[lines, steps], which lines have not ended a step, and which have; `lag`
    int64[lines], how long after the others. A gradient passes a pipeline link by link: where most of those it reaches
    later have ended a step, it has passed this one.
    """
    overtaken = np.zeros_like(silent)
    for line in np.flatnonzero(silent.any(axis=1)):
        later = seen[(chain == chain[line]) & (lag > lag[line])]
        if len(later):
            overtaken[line] = later.mean(axis=0) > params.half
    return overtaken


def _pending(silent: Bool, expected: Int64, data_end_ns: int, step_ns: float, params: DivideParams) -> Bool:
    """Mask the steps that some lines are still to end, bool[steps].

    Parameters: `silent` bool[lines, steps], which lines end neither that step nor a later one; `expected`
    int64[lines, steps], when they usually would. Nothing is pending a step before the end of the data.
    """
    near = data_end_ns < expected.max(axis=0) + step_ns
    unreached = (silent & (expected > data_end_ns + params.jitter_share * step_ns)).any(axis=0)
    missing = silent.sum(axis=0)
    # One line of many has lost a record; several, or half of few, are being waited for.
    delayed = (missing > 1) | (2 * missing >= len(silent))
    pending: Bool = near & (missing > 0) & (unreached | delayed)
    return pending


def _after_nearest(reference: Int64, end: Int64) -> Int64:
    """Return how long after the nearest of the reference's ends each end is, in ns."""
    after = np.clip(np.searchsorted(reference, end), 1, max(len(reference) - 1, 1))
    before = np.maximum(after - 1, 0)
    after = np.minimum(after, len(reference) - 1)
    to_before, to_after = end - reference[before], end - reference[after]
    nearest: Int64 = np.where(np.abs(to_before) <= np.abs(to_after), to_before, to_after)
    return nearest


def _number(line: Int32, moment: Int64, step_ns: float, params: DivideParams) -> Int64:
    """Return the number of the step that each end belongs to, int64[n].

    Parameters: `line`, `moment` int[n], of each end, its line's usual distance taken off; `step_ns`, a usual step.
    """
    order = np.argsort(moment, kind="stable")
    opens = np.concatenate([[True], np.diff(moment[order]) > params.same_boundary * step_ns])
    cluster = np.empty(len(order), dtype=np.int64)
    cluster[order] = np.cumsum(opens) - 1
    seen = np.zeros((int(cluster.max()) + 1, int(line.max()) + 1), dtype=bool)
    seen[cluster, line] = True
    return _join_delayed(seen, robust.median_by(cluster.astype(np.int32), moment), step_ns, params)[cluster]


def _join_delayed(seen: Bool, centre: Float64, step_ns: float, params: DivideParams) -> Int64:
    """Return the number of the step that each cluster of ends belongs to, int64[clusters], rising.

    Parameters: `seen` bool[clusters, lines], which lines end a step in a cluster; `centre`, its time.
    A slow GPU delays the lines of its own stage beyond their usual distance. Neighbouring clusters that have no line
    in common are one step, where the later one comes early enough before those lines end the next.
    """
    number = np.arange(len(seen))
    in_common = (seen[1:] & seen[:-1]).any(axis=1)
    for later in np.flatnonzero(~in_common) + 1:
        first = int(np.searchsorted(number, number[later - 1]))
        earlier = seen[first:later].any(axis=0)
        again = np.flatnonzero((seen[later:] & earlier).any(axis=1))
        until = centre[later + again[0]] if len(again) else centre[first] + step_ns
        # Lost records make single lines miss a step, so that two of them seem to take turns; never several at once.
        several = min(np.count_nonzero(earlier), np.count_nonzero(seen[later])) > 1
        share = params.delay_share if several else params.same_boundary
        if centre[later] - centre[first] < share * (until - centre[first]):
            number[later:] -= 1
    return number

"""Links of pipelines that seem to end a step apart from the others, as a message of theirs was lost."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import robust
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Int32, Int64
from prism_ch.model.params import DivideParams


def without_strays(sequences: Sequences, ends: Int64, chain: Int32, params: DivideParams) -> Int64:
    """Move the ends of links that stray to when the others end, int64[links, steps].

    Parameters: `ends` int64[links, steps]; `chain` int32[links], the pipeline of each. Lost messages shift single
    links, or those of one rail; a delay shifts a tensor group, one pipeline of which is on every rail. So a link strays
    if it ends a step at an unusual distance with few others, or with few pipelines: then it ended the step with its
    last message before another link began the next one. A straggler's links end late, but the others wait for them.
    """
    lag = robust.median(ends - robust.median(ends, axis=0), axis=1)
    centre = robust.median(ends - lag[:, None], axis=0)
    late = ends - lag[:, None] - centre
    near = params.jitter_share * float(robust.median(np.diff(centre))) if ends.shape[1] > 1 else np.inf
    strays = np.abs(late) > near
    strays &= ~strays.all(axis=0)  # where all do, none strays from the others
    of_chain = chain[:, None] == np.unique(chain)
    for number in np.flatnonzero(strays.any(axis=0)).tolist():
        moved = np.flatnonzero(strays[:, number])
        alike = np.abs(late[moved, None, number] - late[None, :, number]) <= near
        links, pipelines = np.count_nonzero(alike, axis=1), np.count_nonzero(alike @ of_chain, axis=1)
        strays[moved, number] = (links < params.repeats) | (pipelines < params.half * of_chain.shape[1])
    strays |= ~_is_burst(sequences, ends)
    link, step = np.nonzero(strays)
    by_ns = _amid_rest(sequences, ends, ~strays)[step]
    unknown = by_ns == np.iinfo(np.int64).max
    by_ns[unknown] = (centre[step] + lag[link] + near)[unknown].astype(np.int64)
    last = group_search(sequences.line, sequences.end_ns, link.astype(np.int32), by_ns) - 1
    known = last >= sequences.offsets[link]
    settled = ends.copy()
    settled[link[known], step[known]] = sequences.end_ns[last[known]]
    return np.maximum.accumulate(settled, axis=1)


def _is_burst(sequences: Sequences, ends: Int64) -> Bool:
    """Mask the ends that a burst shows, bool[links, steps]; others were imputed."""
    links, steps = ends.shape
    line = np.repeat(np.arange(links, dtype=np.int32), steps)
    last = np.maximum(group_search(sequences.line, sequences.end_ns, line, ends.ravel()) - 1, 0)
    return np.asarray((sequences.end_ns[last] == ends.ravel()).reshape(links, steps))


def _amid_rest(sequences: Sequences, ends: Int64, known: Bool) -> Int64:
    """Find a moment at which all links rest after each step, int64[steps].

    Parameters: `ends` int64[links, steps], of which those `known` bool[links, steps] count. The moment is half of the
    usual pause before the next step begins, which may be long after most links ended this one.
    """
    links, steps = ends.shape
    line = np.repeat(np.arange(links, dtype=np.int32), steps)
    after = group_search(sequences.line, sequences.end_ns, line, ends.ravel())
    begins = (after < sequences.offsets[line + 1]) & known.ravel()
    begin_ns = np.full(links * steps, np.iinfo(np.int64).max)
    begin_ns[begins] = sequences.start_ns[after[begins]]
    next_ns = begin_ns.reshape(links, steps).min(axis=0)
    last_ns = np.where(known, ends, np.iinfo(np.int64).min).max(axis=0)
    seen = (next_ns < np.iinfo(np.int64).max) & (last_ns > np.iinfo(np.int64).min)
    pause_ns = int(np.median(next_ns[seen] - last_ns[seen])) if seen.any() else 0
    return np.asarray(np.where(seen, next_ns - max(pause_ns, 0) // 2, np.iinfo(np.int64).max))

"""The order of model chunks at the two ends of an interleaved pipeline, where messages wrap round.

Source: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
section 2.2: a stage takes a group of microbatches through its first chunk, then through its second, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from prism_ch.analysis.diagnose.compute.between_messages import operation_ns
from prism_ch.analysis.replay.hidden import Hidden, Visible, place_hidden
from prism_ch.analysis.replay.outputs import Input, Output, in_order, usual_moments
from prism_ch.model.columns import Float64, Int64
from prism_ch.model.params import ComputeTimeParams, ReplayParams

_Link: TypeAlias = tuple[int, int]
_Sides: TypeAlias = Mapping[_Link, Float64]


@dataclass(frozen=True, slots=True)
class _Ends:
    """The links of an end stage: to its neighbour (`on`, `back`) and round to the other end (`out`, `home`).

    Of each chunk but one, what comes `back` goes `out`, and what comes `home` goes `on`.
    """

    on: _Link
    back: _Link
    out: _Link
    home: _Link
    microbatches: int
    chunks: int


@dataclass(frozen=True, slots=True)
class _Pairs:
    """What is made of what, by numbers: `on` int64[n] of what comes home, `out` of what comes back; -1 for nothing.

    `hidden` int64[m] are the numbers of what comes back of which nothing is sent.
    """

    on: Int64
    out: Int64
    hidden: Int64


def interleaved_outputs(
    stage: int, sent: _Sides, arrived: _Sides, begin: Float64, params: tuple[ComputeTimeParams, ReplayParams]
) -> tuple[Output, ...] | None:
    """Put in order what an end stage computes, seen and unseen, with inputs.

    Returns None unless a stage's messages are those of an end of an interleaved pipeline. Parameters: moments of
    outputs and of inputs, float64[u, k, n] by link; `begin` float64[k], since when the stage may compute.

    1. A chunk sends a message a microbatch each way. Only the ends have one chunk that gets or sends none round: so
       counts tell the number of chunks and of microbatches.
    2. How many microbatches go through a chunk at a time is not known: take the number with which no output comes
       before its input, and least time remains between outputs and what they are made of.
    3. Place the operations that send nothing: the last forward of a microbatch, or its last backward.
    """
    ends = _find_ends(sent, arrived)
    if ends is None:
        return None
    order = in_order(sent)
    at = {link: usual_moments(values) for link, values in sent.items()}
    come = {link: usual_moments(values) for link, values in arrived.items()}
    moments = np.array([at[link][number] for link, number in order])
    least = params[0].half * operation_ns(list(sent.values()), params[0])
    best: tuple[float, _Pairs] | None = None
    for group in range(1, ends.microbatches + 1):
        pairs = _pair(ends, group)
        took = moments - _since(order, ends, pairs, moments, come, float(np.median(begin)))
        if (took[1:] >= least).all() and (best is None or took[1:].sum() < best[0]):
            best = float(took[1:].sum()), pairs
    return None if best is None else _with_hidden(stage, order, ends, best[1], moments, come, begin, params[1])


def _find_ends(sent: _Sides, arrived: _Sides) -> _Ends | None:
    """Find which link is which by counts. Returns None where these are not those of an end stage."""
    outs = sorted(sent, key=lambda link: -sent[link].shape[2])
    ins = sorted(arrived, key=lambda link: -arrived[link].shape[2])
    if len(outs) != 2 or [link[::-1] for link in outs] != ins:
        return None
    full, part = sent[outs[0]].shape[2], sent[outs[1]].shape[2]
    same = arrived[ins[0]].shape[2] == full and arrived[ins[1]].shape[2] == part
    if not same or full == part or full % (full - part):
        return None
    return _Ends(outs[0], ins[0], outs[1], ins[1], full - part, full // (full - part))


def _pair(ends: _Ends, group: int) -> _Pairs:
    """Pair outputs with inputs; a `group` of microbatches goes through a chunk at a time."""
    on, out, hidden = list[int](), list[int](), list[int]()
    for first in range(0, ends.microbatches, group):
        size = min(group, ends.microbatches - first)
        others = (ends.chunks - 1) * size
        come, back = first * (ends.chunks - 1), first * ends.chunks
        on += [-1] * size + list(range(come, come + others))
        out += range(back, back + others)
        hidden += range(back + others, back + others + size)
    return _Pairs(np.array(on), np.array(out), np.array(hidden))


def _fed(order: Sequence[tuple[_Link, int]], ends: _Ends, pairs: _Pairs) -> list[Input | None]:
    found: list[Input | None] = []
    for link, number in order:
        source, of = (ends.home, int(pairs.on[number])) if link == ends.on else (ends.back, int(pairs.out[number]))
        found.append(Input(source, of) if of >= 0 else None)
    return found


def _arrivals(fed: Sequence[Input | None], come: Mapping[_Link, Float64]) -> Float64:
    return np.array([-np.inf if one is None else come[one.link][one.number] for one in fed])


def _since(
    order: Sequence[tuple[_Link, int]],
    ends: _Ends,
    pairs: _Pairs,
    moments: Float64,
    come: Mapping[_Link, Float64],
    begin: float,
) -> Float64:
    """Return since when outputs may be computed: the stage is free, the input there."""
    return np.asarray(np.maximum(np.append(begin, moments[:-1]), _arrivals(_fed(order, ends, pairs), come)))


def _with_hidden(
    stage: int,
    order: Sequence[tuple[_Link, int]],
    ends: _Ends,
    pairs: _Pairs,
    moments: Float64,
    come: Mapping[_Link, Float64],
    begin: Float64,
    params: ReplayParams,
) -> tuple[Output, ...]:
    """Put what is computed unseen between the outputs."""
    start = float(np.median(begin))
    took = moments - _since(order, ends, pairs, moments, come, start)
    goes_out = np.array([link == ends.out for link, _ in order])
    takes = [float(np.quantile(took[1:][goes_out[1:] == which], params.plain_quantile)) for which in (False, True)]
    fed = _fed(order, ends, pairs)
    arrives, hidden = _arrivals(fed, come), come[ends.back][pairs.hidden]
    # What comes back is computed in order: all before what goes out, and nothing of what comes later.
    below = np.array(
        [np.searchsorted(pairs.hidden, one.number) if one and one.link == ends.back else -1 for one in fed]
    )
    most = np.where(goes_out, below, len(hidden))
    least = np.where(goes_out, below, 0)
    turns = np.array([link == ends.on and one is None for (link, _), one in zip(order, fed, strict=True)])
    is_last = bool((hidden[: turns.sum()] <= moments[turns]).all())
    if is_last:  # the backward of a microbatch follows its forward
        least[turns] = np.maximum(least[turns], np.arange(1, turns.sum() + 1))
    least = np.maximum.accumulate(least)
    most = np.minimum(np.minimum.accumulate(most[::-1])[::-1], np.searchsorted(hidden, moments))
    visible = Visible(
        at=moments,
        since=arrives,
        takes=np.where(goes_out, takes[1], takes[0]),
        least=least,
        most=most,
        is_backward=np.zeros(len(order), dtype=np.bool_),
        begin=start,
        end=np.nan,
    )
    placed = place_hidden(visible, Hidden(hidden, takes[1]), params)
    outputs = list[Output]()
    for (link, number), one, before in zip(order, fed, placed, strict=False):
        for each in before:
            source = Input(ends.back, int(pairs.hidden[each]))
            outputs.append(Output((stage, stage), each, (source,), takes[1]))
        outputs.append(Output(link, number, () if one is None else (one,)))
    return tuple(outputs)

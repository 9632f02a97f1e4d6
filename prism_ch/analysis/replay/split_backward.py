"""Backward passes that are split: weight gradients are put off to where a stage would be idle, and send nothing.

Source: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 2.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from prism_ch.analysis.replay.chains import Chain
from prism_ch.analysis.replay.hidden import WEIGHT, Hidden, Visible, place_hidden
from prism_ch.analysis.replay.outputs import Input, Output
from prism_ch.core import robust
from prism_ch.model.columns import Float64
from prism_ch.model.params import ReplayParams


@dataclass(frozen=True, slots=True)
class _Stage:
    """A stage of a pipeline of one chunk: its `outputs` in order, and as they usually are (see Visible).

    `hidden` float64[n] is when the inputs arrive that nothing is sent for. `both` is how long a stage computes for
    one microbatch forward and backward, without weight gradients, and `tail` how long after its last output.
    """

    chain: Chain
    outputs: tuple[Output, ...]
    visible: Visible
    hidden: Float64
    backward: float
    both: float
    tail: float

    @property
    def is_first(self) -> bool:
        return len(self.hidden) > 0

    def place(self, ratio: float, params: ReplayParams, kept: int = 0) -> list[tuple[int, ...]]:
        """Place what sends nothing, for weight gradients of some length.

        Parameters: `ratio` of that length to both passes of a microbatch; how many are `kept` back to the end.
        """
        return place_hidden(self.visible, Hidden(self.hidden, self.backward, ratio * self.both, kept), params)

    def keep(self, ratio: float, params: ReplayParams) -> int:
        """Find how many weight gradients the stage keeps back, though it might compute them earlier."""
        due = int(self.visible.is_backward.sum())
        wanted = round(self.tail / (ratio * self.both))
        return bisect_left(range(due), wanted, key=lambda kept: self.left(ratio, params, kept))

    def left(self, ratio: float, params: ReplayParams, kept: int) -> int:
        """Count the weight gradients computed after the last output, some being `kept` back."""
        return self.place(ratio, params, kept)[-1].count(WEIGHT)


def with_weights(chains: Sequence[Chain], until: Float64, params: ReplayParams) -> list[Chain] | None:
    """Put weight gradients between the outputs of stages. Returns None where backwards are not split.

    Parameters: `until` float64[units, k], when units are seen to have computed all of a step, NaN for not at all.

    1. Each backward is followed by one weight gradient, at once or later. So as many as do not fit between a stage's
       outputs are computed after the last: how long that takes tells how long one does.
    2. Suppose a length that explains one stage's end of the step; take that which explains the others' best. If none
       explains all of them, backwards are not split.
    3. Take the length that most stages show, and put weight gradients where a stage sends nothing for as long.
    """
    stages = _read_stages(chains, until)
    if stages is None:
        return None
    ratio = _find_ratio([one for one in stages if not one.is_first], params)
    return None if ratio is None else [_with_hidden(one, ratio, params) for one in stages]


def _read_stages(chains: Sequence[Chain], until: Float64) -> list[_Stage] | None:
    """Read stages as they usually are.

    Returns None unless each has one message a microbatch, link and direction, and several microbatches: the first one
    does not show how long an operation of the first stage takes.
    """
    if len(chains) < 2 or not all(_links(one) and one.arrived for one in chains):
        return None
    counts = {come.shape[2] for one in chains for come in one.arrived.values()}
    counts |= {sum(each.link == link for each in one.outputs) for one in chains for link in _links(one)}
    first = [_is_first(one) for one in chains]
    seen = [not np.isnan(until[one.units]).all() for one in chains]
    if len(counts) != 1 or counts == {1} or sum(first) != 1 or not all(seen):
        return None
    here = first.index(True)
    if len(chains[here].arrived) > 1 or len(_links(chains[here])) > 1:
        return None
    read = [_read_stage(one, until[one.units], is_first=each) for one, each in zip(chains, first, strict=True)]
    if not all(np.isfinite([*one.visible.at, one.tail]).all() and one.both > 0 for one in read):
        return None
    backward = _hidden_backward([one for one in read if not one.is_first], read[here].both)
    read[here] = replace(read[here], backward=backward, both=read[here].both + backward)
    return read


def _links(chain: Chain) -> set[tuple[int, int]]:
    return {one.link for one in chain.outputs if one.link[0] != one.link[1]}


def _is_first(chain: Chain) -> bool:
    """Whether a stage sends before it gets anything."""
    come = min(float(robust.median(each[:, :, 0])) for each in chain.arrived.values())
    return float(robust.median(chain.at[0])) < come


def _hidden_backward(others: Sequence[_Stage], forward: float) -> float:
    """Find how long the first stage's backward takes. Nothing shows it: as much of its forward as elsewhere."""
    shares = []
    for one in others:
        takes = one.visible.takes
        if len(_links(one.chain)) > 1:
            shares.append(float(takes[-1] / takes[0]))
    return forward * float(robust.median(shares)) if shares else max(others[0].both - forward, 0.0)


def _read_stage(chain: Chain, until: Float64, *, is_first: bool) -> _Stage:
    """Read a stage as it usually is; `until` float64[u, k] of its units.

    The first stage sends nothing back: all of its inputs are of hidden operations.
    """
    rows = [row for row, one in enumerate(chain.outputs) if one.link[0] != one.link[1]]
    outputs = tuple(chain.outputs[row]._replace(inputs=() if is_first else chain.outputs[row].inputs) for row in rows)
    at = chain.at[rows]
    never = np.full(at.shape[1:], -np.inf)
    since = np.array([_arrived(chain, one, never) for one in outputs])
    free = np.concatenate([np.broadcast_to(chain.begin, at[:1].shape), at[:-1]])
    took = _usual((at - np.maximum(since, free)) / chain.speed)
    takes: dict[tuple[int, int], float] = {}
    # What a step begins with comes before the first output, but where it waits for others.
    for one, each in list(zip(outputs, took.tolist(), strict=True))[int(is_first) :]:
        takes[one.link] = min(each, takes.get(one.link, each))
    none = np.zeros(len(outputs), dtype=np.int64)
    hidden = np.empty(0, dtype=np.float64)
    if is_first:
        [come] = chain.arrived.values()
        hidden = _usual(come.transpose(2, 0, 1))
    usually = _usual(at)
    # Where a round begins when all are ready, the last of them shows how long it computed.
    tail = float(robust.median(np.fmin.reduce((until - at[-1]) / chain.speed, axis=0)))
    visible = Visible(
        at=usually,
        since=_usual(since),
        takes=np.array([takes[one.link] for one in outputs]),
        least=none,
        most=np.searchsorted(hidden, usually) if is_first else none,
        is_backward=np.array([not is_first and one.link == outputs[-1].link for one in outputs]),
        begin=float(robust.median(chain.begin)),
        end=np.nan if is_first else float(usually[-1]) + tail,
    )
    return _Stage(chain, outputs, visible, hidden, 0.0, sum(takes.values()), tail)


def _arrived(chain: Chain, output: Output, never: Float64) -> Float64:
    come = [never, *(chain.arrived[one.link][:, :, one.number] for one in output.inputs)]
    return np.asarray(np.max(come, axis=0), dtype=np.float64)


def _usual(values: Float64) -> Float64:
    return np.asarray(robust.median(values.reshape(len(values), -1), axis=1))


def _find_ratio(stages: Sequence[_Stage], params: ReplayParams) -> float | None:
    """Find how long a weight gradient takes, as a share of both passes. Returns None where it is not split off.

    The shortest tail is that of one weight gradient, or of few. Of lengths that explain all tails that one counts with
    which stages keep fewest weight gradients back.
    """
    shortest = min(one.tail / one.both for one in stages)
    best: tuple[float, list[float]] | None = None
    # Both passes are two operations.
    for count in range(1, int(shortest / (params.put_off / 2)) + 1):
        ratio = shortest / count
        kept = [each.keep(ratio, params) for each in stages]
        left = [each.left(ratio, params, held) for each, held in zip(stages, kept, strict=True)]
        off = max(abs(each.tail / (ratio * each.both) - rest) for each, rest in zip(stages, left, strict=True))
        cost = sum(kept) + off
        if off <= params.put_off and (best is None or cost < best[0]):
            best = cost, [each.tail / each.both / rest for each, rest in zip(stages, left, strict=True)]
    return None if best is None else float(np.median(best[1]))


def _with_hidden(stage: _Stage, ratio: float, params: ReplayParams) -> Chain:
    """Put what sends nothing between the outputs of a stage."""
    chain, outputs, weights = stage.chain, list[Output](), ratio * stage.both
    own = (chain.stage, chain.stage)
    placed = stage.place(ratio, params, 0 if stage.is_first else stage.keep(ratio, params))
    # What ends a step is seen in its first round: the last input, and all after it.
    last = placed[-1]
    placed[-1] = last[: last.index(len(stage.hidden) - 1)] if stage.is_first and len(stage.hidden) - 1 in last else ()
    for output, before in zip([*stage.outputs, None], placed, strict=True):
        for operation, same in groupby(before):
            count = len(list(same))
            if operation == WEIGHT:
                outputs.append(Output(own, len(outputs), (), count * weights))
            else:
                [link] = chain.arrived
                outputs.append(Output(own, len(outputs), (Input(link, operation),), stage.backward))
        if output is not None:
            outputs.append(output)
    sent = {link: chain.sent(link).swapaxes(1, 2) for link in _links(chain)}
    return Chain.of(chain.stage, chain.units, chain.begin, tuple(outputs), (sent, chain.arrived), params)

"""What the units of a pipeline stage compute in turn: outputs, each made of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from prism_ch.analysis.replay.draft import INPUT, OWN, Draft
from prism_ch.analysis.replay.interleaved import interleaved_outputs
from prism_ch.analysis.replay.lags import Lags, find_lags
from prism_ch.analysis.replay.outputs import Input, Output, find_outputs, unused
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import ComputeTimeParams, ReplayParams

#: The moments of units, float64[u, k, n], by the stages that a link joins.
Moments: TypeAlias = Mapping[tuple[int, int], tuple[Int64, Float64]]


@dataclass(frozen=True, slots=True)
class Chain:
    """What the units of one stage compute in turn.

    `units` int64[u], rising; `begin` float64[k], since when they may compute; `outputs` in order, with their moments
    `at` float64[n, u, k] and the moments of inputs `arrived` float64[u, k, n] by link. `rest` are inputs that no output
    needs. `lags` are those of each output after what it waits for, and `speed` float64[u, k] how many times longer than
    usual each unit computes, as does `closing` of what it computes after its last output.
    """

    stage: int
    units: Int64
    begin: Float64
    outputs: tuple[Output, ...]
    at: Float64
    arrived: Mapping[tuple[int, int], Float64]
    rest: tuple[Input, ...]
    lags: tuple[Lags, ...]
    speed: Float64
    closing: Float64

    @classmethod
    def of(
        cls,
        stage: int,
        units: Int64,
        begin: Float64,
        outputs: tuple[Output, ...],
        moments: tuple[Mapping[tuple[int, int], Float64], Mapping[tuple[int, int], Float64]],
        params: ReplayParams,
    ) -> Chain:
        """Find the lags of outputs in order.

        Parameters: `moments` of outputs and of inputs, float64[u, k, n] by link.
        """
        sent, arrived = moments
        shape = len(units), len(begin)
        unseen = np.full(shape, np.nan)
        rows = [sent[one.link][:, :, one.number] if one.link in sent else unseen for one in outputs]
        at, lags, speed = _lags(outputs, np.array(rows).reshape(len(outputs), *shape), arrived, begin, params)
        return cls(stage, units, begin, outputs, at, arrived, unused(outputs, arrived), lags, speed, speed)

    def sources(self, place: int) -> Float64:
        """Return when what an output waits for was there, float64[s, u, k]. Its unit's own before it comes first."""
        return _sources(self.outputs, self.at, self.arrived, self.begin, place)

    def sent(self, link: tuple[int, int]) -> Float64:
        """Return when the outputs of a link are sent, float64[u, n, k]."""
        return self.at[[place for place, output in enumerate(self.outputs) if output.link == link]].swapaxes(0, 1)

    def last(self) -> Float64:
        """Return the moment of the last output, or since when units may compute: float64[u, k]."""
        return self.at[-1] if len(self.at) else np.broadcast_to(self.begin, (len(self.units), len(self.begin)))


def read_chain(
    stage: int,
    units: Int64,
    moments: tuple[Moments, Moments],
    begin: Float64,
    params: tuple[ComputeTimeParams, ReplayParams],
) -> Chain:
    """Read what the units of a stage compute in turn.

    Parameters: `moments` of outputs and of inputs; `begin` float64[k], since when the stage may compute.

    1. Keep the units that have all outputs and inputs, and put outputs in order.
    2. An inner stage makes each output of the input of its turn; of others, find the inputs that come before it always.
    3. Find how long is computed between them, first by the last source alone, then with lags of their own.
    """
    outs, ins = (
        {link: held for link, held in side.items() if link[place] == stage and len(held[0])}
        for place, side in enumerate(moments)
    )
    kept = units
    for held, _ in (*outs.values(), *ins.values()):
        kept = np.intersect1d(kept, held)
    if not len(kept):
        outs, ins, kept = {}, {}, units
    sent, arrived = (
        {link: values[np.searchsorted(held, kept)] for link, (held, values) in side.items()} for side in (outs, ins)
    )
    outputs = interleaved_outputs(stage, sent, arrived, begin, params)
    if outputs is None:
        outputs = find_outputs(stage, sent, arrived, params[0])
    chain = Chain.of(stage, kept, begin, outputs, (sent, arrived), params[1])
    queued = [place for place, one in enumerate(outputs) if len(one.inputs) > 1]
    for place in reversed(queued):
        chain = _with_operations(chain, place)
    return chain


def _with_operations(chain: Chain, place: int) -> Chain:
    """Let a stage compute on each input of an output's queue as it comes.

    Such an operation sends nothing, and stands as an output to the stage itself. It takes as much as the output follows
    its last input by longer than outputs of that link follow one another without one.
    """
    output, lags = chain.outputs[place], chain.lags[place]
    alone = [
        float(each.usual[0])
        for one, each in zip(chain.outputs, chain.lags, strict=True)
        if one.link == output.link and not one.inputs
    ]
    takes = float(lags.usual[-1]) - float(robust.median(alone))
    if not takes > 0:
        return chain
    until, before = chain.at[place], chain.sources(place)[0]
    operations, moments, found = list[Output](), list[Float64](), list[Lags]()
    for number, one in enumerate(output.inputs):
        since = np.stack([before, chain.arrived[one.link][:, :, one.number]])
        before = np.minimum(since.max(axis=0) + np.rint(takes * chain.speed), until)
        operations.append(Output((chain.stage, chain.stage), number, (one,)))
        moments.append(before)
        lag = np.broadcast_to(before - since.max(axis=0), since.shape)
        found.append(Lags(lag, np.full(2, takes), since.argmax(axis=0)))
    last = Lags((until - before)[None], np.array([lags.usual[-1] - takes]), np.zeros(until.shape, dtype=np.int64))
    return replace(
        chain,
        outputs=(*chain.outputs[:place], *operations, output._replace(inputs=()), *chain.outputs[place + 1 :]),
        at=np.concatenate([chain.at[:place], np.stack(moments), chain.at[place:]]),
        lags=(*chain.lags[:place], *found, last, *chain.lags[place + 1 :]),
    )


def with_prologue(chains: Sequence[Chain], takes: Sequence[float]) -> list[Chain]:
    """Let stages that wait for an input do first what a step begins with.

    Parameters: `takes`, of what the step before ended with, how long each stage computes on in this one; NaN for
    nothing.

    That is the optimizer, the loading of data and checkpoints, which all stages do. It shows in the first stage, whose
    first output needs no input and takes longer than the next.
    """
    longer = [
        _longer_begin(one) - np.nan_to_num(left)
        for one, left in zip(chains, takes, strict=True)
        if len(one.outputs) > 1 and not one.outputs[0].inputs and not one.outputs[1].inputs
    ]
    if not longer:
        return list(chains)
    prologue = np.maximum(np.min(longer, axis=0), 0.0)
    found = []
    for one in chains:
        if one.outputs and one.outputs[0].inputs:
            first = one.lags[0]
            lag = first.lag.copy()
            lag[0] = np.minimum(lag[0] + np.rint(prologue), one.at[0] - one.begin)
            one = replace(one, lags=(replace(first, lag=lag), *one.lags[1:]))  # noqa: PLW2901 - the same, completed
        found.append(one)
    return found


def _longer_begin(chain: Chain) -> Float64:
    """Return how much longer the first output of a stage takes than the next, float64[k].

    It is as much in all steps, but for pauses of all units, longer than what is computed for an output.
    """
    first, second = chain.lags[:2]
    usual = np.full(len(chain.begin), float(first.usual[0] - second.usual[0]))
    if len(chain.units) == 1:
        return usual  # a pause of all, or its own
    least = (first.lag[0] - second.usual[0] * chain.speed).min(axis=0)
    return np.where(least - usual > second.usual[0], least, usual)


def _sources(
    outputs: Sequence[Output], at: Float64, arrived: Mapping[tuple[int, int], Float64], begin: Float64, place: int
) -> Float64:
    before = at[place - 1] if place else np.broadcast_to(begin, at[place].shape)
    return np.array([before, *(arrived[one.link][:, :, one.number] for one in outputs[place].inputs)])


def _lags(
    outputs: Sequence[Output],
    at: Float64,
    arrived: Mapping[tuple[int, int], Float64],
    begin: Float64,
    params: ReplayParams,
) -> tuple[Float64, tuple[Lags, ...], Float64]:
    """Find the moments of outputs, their lags, and the speed of units, float64[u, k]."""
    speed, lags = np.ones(at.shape[1:]), tuple[Lags, ...]()
    if not outputs:
        return at, lags, speed
    plain_ns = _plain_ns(outputs, at, arrived, begin)
    at, waited = _with_unseen(outputs, at, arrived, begin, speed, plain_ns)
    with np.errstate(invalid="ignore"):
        lags = _find_each(at, waited, speed, params)
        took, usual = _computed(outputs, lags)
        paced = _paced(outputs)[:, None, None]
        counts = paced & (usual >= params.little * np.nan_to_num(usual).max()) & (usual > 0)
        speed = robust.median(np.where(counts, took / np.where(counts, usual, 1.0), np.nan), axis=0)
        speed = _in_range(speed, params)
        at, waited = _with_unseen(outputs, at, arrived, begin, speed, plain_ns)
        lags = _find_each(at, waited, speed, params, _plain(outputs, lags, params))
        took, usual = _computed(outputs, lags)
        total, took = (np.where(paced, each, 0).sum(axis=0) for each in (usual, took))
        speed = _in_range(np.where(total > 0, took / np.where(total > 0, total, 1.0), 1.0), params)
    return at, lags, speed


def _paced(outputs: Sequence[Output]) -> Bool:
    """Mask the outputs that measure how fast a unit computes, bool[n].

    What a step begins with does not: the optimizer, loading of data, a checkpoint. Nor does what can't be seen, and
    what follows an unseen operation that may have waited.
    """
    later = np.array([place > 0 or bool(one.inputs) for place, one in enumerate(outputs)])
    seen = np.array([not one.takes for one in outputs])
    waits = np.array([bool(one.takes and one.inputs) for one in outputs])
    alone = later & seen & ~np.append(False, waits[:-1])
    return alone if alone.any() else later & seen if (later & seen).any() else ~later


def _plain_ns(
    outputs: Sequence[Output], at: Float64, arrived: Mapping[tuple[int, int], Float64], begin: Float64
) -> dict[tuple[int, int], float]:
    """Find how long outputs of each link take at least.

    Those count that no unseen operation comes before.
    """
    found: dict[tuple[int, int], float] = {}
    for place, one in enumerate(outputs):
        if not one.takes and (outputs[place - 1].takes == 0 if place else bool(one.inputs)):
            took = float(robust.median(at[place] - _sources(outputs, at, arrived, begin, place).max(axis=0)))
            found[one.link] = min(took, found.get(one.link, took))
    return found


def _with_unseen(
    outputs: Sequence[Output],
    at: Float64,
    arrived: Mapping[tuple[int, int], Float64],
    begin: Float64,
    speed: Float64,
    plain_ns: Mapping[tuple[int, int], float],
) -> tuple[Float64, list[Float64]]:
    """Compute when operations end that can't be seen, in time for the next output. `plain_ns` is how long that takes.

    Returns the moments of all, and what each waits for.
    """
    at, waited, latest = at.copy(), list[Float64](), np.empty_like(at)
    until = np.full(at.shape[1:], np.inf)
    for place in reversed(range(len(outputs))):
        latest[place] = until
        if not outputs[place].takes:
            until = at[place] - plain_ns.get(outputs[place].link, 0.0) * speed
    for place, one in enumerate(outputs):
        waited.append(_sources(outputs, at, arrived, begin, place))
        if one.takes:
            done = waited[-1].max(axis=0) + np.rint(one.takes * speed)
            at[place] = np.maximum(np.minimum(done, np.rint(latest[place])), waited[-1][0])
    return at, waited


def _find_each(
    at: Float64,
    waited: Sequence[Float64],
    speed: Float64,
    params: ReplayParams,
    plain: Sequence[Float64] | None = None,
) -> tuple[Lags, ...]:
    """Find the lags of outputs, all at once that wait for as many sources."""
    found: dict[int, Lags] = {}
    counts = np.array([len(one) for one in waited])
    for count in np.unique(counts).tolist():
        places = np.flatnonzero(counts == count).tolist()
        sources = np.stack([waited[place] for place in places])
        least = None if plain is None else np.stack([plain[place] for place in places])
        found |= zip(places, find_lags(at[places], sources, speed, params, least), strict=True)
    return tuple(found[place] for place in range(len(waited)))


def _computed(outputs: Sequence[Output], lags: Sequence[Lags]) -> tuple[Float64, Float64]:
    """Return how long was computed for each output, and how long usually. Both are float64[n, u, k].

    Where an output waited for something unseen that needs no input, that was computed for it as well.
    """
    took, usual = np.array([one.bound() for one in lags]), np.array([one.usual[one.binding] for one in lags])
    for place, one in enumerate(outputs[:-1]):
        if one.takes and not one.inputs and not outputs[place + 1].takes:
            own = lags[place + 1].binding == 0
            took[place + 1] += np.where(own, lags[place].lag[0], 0.0)
            usual[place + 1] += np.where(own, one.takes, 0.0)
    return took, usual


def _in_range(speed: Float64, params: ReplayParams) -> Float64:
    return np.clip(robust.known_or(speed, 1.0), 1 / params.speed_range, params.speed_range)


def _plain(outputs: Sequence[Output], lags: Sequence[Lags], params: ReplayParams) -> list[Float64]:
    """Find how long computing takes after each source. It is where it takes least."""
    found: dict[tuple[tuple[int, int], tuple[int, int]], list[float]] = {}
    for output, one in zip(outputs, lags, strict=True):
        for source in {each.link for each in output.inputs}:
            found.setdefault((source, output.link), []).append(float(one.usual[0]))
    least = {way: float(np.quantile(each, params.plain_quantile)) for way, each in found.items()}
    after = [[least[each.link, output.link] for each in output.inputs] for output in outputs]
    return [np.array([min(each, default=np.inf), *each]) for each in after]


class ChainNodes:
    """The nodes of a chain: `own` int64[n, u] of its outputs, `begin` of what its units begin with."""

    def __init__(self, chain: Chain, draft: Draft, begin: int) -> None:
        """Draft the outputs; `begin` is the node since when the stage may compute."""
        self.chain, self.begin = chain, begin
        self.own = [draft.nodes(at) for at in chain.at]

    def sent(self, link: tuple[int, int]) -> Int64:
        """Return the nodes of a link's outputs, int64[u, n]."""
        return np.array([own for own, one in zip(self.own, self.chain.outputs, strict=True) if one.link == link]).T

    def draft(self, draft: Draft, arrivals: Mapping[tuple[int, int], Int64]) -> None:
        """Draft what outputs wait for; `arrivals` are the nodes of inputs, int64[u, n], by link."""
        before = np.full(len(self.chain.units), self.begin)
        for own, output, lags in zip(self.own, self.chain.outputs, self.chain.lags, strict=True):
            draft.edges(OWN, before, own, lags.lag[0], self.chain.units)
            for one, lag in zip(output.inputs, lags.lag[1:], strict=True):
                draft.edges(INPUT, arrivals[one.link][:, one.number], own, lag, self.chain.units)
            before = own

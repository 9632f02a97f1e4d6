"""What the units of a pipeline stage compute in turn: outputs, each made of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from prism_ch.analysis.diagnose.compute.between_messages import find_needs, operation_ns
from prism_ch.analysis.replay.draft import INPUT, OWN, Draft
from prism_ch.analysis.replay.lags import Lags, find_lags
from prism_ch.core import robust
from prism_ch.model.columns import Float64, Int64
from prism_ch.model.params import ComputeTimeParams, ReplayParams

#: The moments of units, float64[u, k, n], by the stages that a link joins.
Moments: TypeAlias = Mapping[tuple[int, int], tuple[Int64, Float64]]


class Input(NamedTuple):
    """The n-th message that comes by a link."""

    link: tuple[int, int]
    number: int


class Output(NamedTuple):
    """The n-th message that goes by a link, and the inputs that are used up by then and were not before."""

    link: tuple[int, int]
    number: int
    inputs: tuple[Input, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """What the units of one stage compute in turn.

    `units` int64[u], rising; `begin` float64[k], since when they may compute; `outputs` in order, with their moments
    `at` float64[n, u, k] and the moments of inputs `arrived` float64[u, k, n] by link. `rest` are inputs that no output
    needs. `lags` are those of each output after what it waits for, and `speed` float64[u, k] how many times longer than
    usual each unit computes.
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
    outputs, rest = _outputs(stage, sent, arrived, params[0])
    at = np.array([sent[one.link][:, :, one.number] for one in outputs]).reshape(len(outputs), len(kept), len(begin))
    lags, speed = _lags(outputs, at, arrived, begin, params[1])
    chain = Chain(stage, kept, begin, outputs, at, arrived, rest, lags, speed)
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


def _outputs(
    stage: int,
    sent: Mapping[tuple[int, int], Float64],
    arrived: Mapping[tuple[int, int], Float64],
    params: ComputeTimeParams,
) -> tuple[tuple[Output, ...], tuple[Input, ...]]:
    """Put outputs in order, each with the inputs it uses up. Returns also those that none does."""
    order = sorted(
        (at, link, number)
        for link, values in sent.items()
        for number, at in enumerate(np.nan_to_num(robust.median(values.reshape(-1, values.shape[2]), axis=0)).tolist())
    )
    least = params.half * operation_ns(list(sent.values())) if sent else 0.0
    needs = {
        (to, source): find_needs(values - least, come, (), params)
        for to, values in sent.items()
        for source, come in arrived.items()
    }
    used, answers = dict.fromkeys(arrived, -1), _answers(sent, arrived, params)
    outputs = []
    for _, link, number in order:
        fed = (2 * stage - link[1], stage)  # what goes on comes from the other side
        if answers:
            [fed] = arrived
        in_turn = fed in arrived and arrived[fed].shape == sent[link].shape
        inputs: list[Input] = []
        for source in (fed,) if in_turn else tuple(arrived):
            found = needs[link, source]
            until = number if in_turn else found[number] if found else -1
            since = number if in_turn else used[source] + 1
            inputs += [Input(source, one) for one in range(since, until + 1)]
            used[source] = max(used[source], until)
        outputs.append(Output(link, number, tuple(inputs)))
    rest = [Input(link, one) for link, come in arrived.items() for one in range(used[link] + 1, come.shape[2])]
    return tuple(outputs), tuple(rest)


def _answers(
    sent: Mapping[tuple[int, int], Float64], arrived: Mapping[tuple[int, int], Float64], params: ComputeTimeParams
) -> bool:
    """Whether a last stage answers each input as it comes.

    Then the quickest answer takes no longer than goes by between two. If all inputs had to be there first, it would
    take that and the forward of all microbatches, half of an answer's backward each.
    """
    if len(sent) != 1 or len(arrived) != 1:
        return False
    [out], [come] = sent.values(), arrived.values()
    if out.shape != come.shape or out.shape[2] < params.slow_steps:
        return False
    quickest = robust.median((out - come).reshape(-1, out.shape[2]), axis=0).min()
    return bool(0 < quickest <= (1 + params.half) * robust.median(np.diff(out, axis=2)))


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
) -> tuple[tuple[Lags, ...], Float64]:
    """Find the lags of outputs and the speed of units. Speed is float64[u, k]."""
    speed, lags = np.ones(at.shape[1:]), tuple[Lags, ...]()
    if not outputs:
        return lags, speed
    waited = [_sources(outputs, at, arrived, begin, place) for place in range(len(outputs))]
    with np.errstate(invalid="ignore"):
        lags = _find_each(at, waited, speed, params)
        took, usual = _computed(lags)
        # What a step begins with is no measure of computing: the optimizer, loading of data, a checkpoint.
        paced = np.array([place > 0 or bool(one.inputs) for place, one in enumerate(outputs)])
        paced = (paced if paced.any() else ~paced)[:, None, None]
        counts = paced & (usual >= params.little * np.nan_to_num(usual).max()) & (usual > 0)
        speed = robust.median(np.where(counts, took / np.where(counts, usual, 1.0), np.nan), axis=0)
        speed = _in_range(speed, params)
        lags = _find_each(at, waited, speed, params, _plain(outputs, lags, params))
        took, usual = _computed(lags)
        total, took = (np.where(paced, each, 0).sum(axis=0) for each in (usual, took))
        speed = _in_range(np.where(total > 0, took / np.where(total > 0, total, 1.0), 1.0), params)
    return lags, speed


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


def _computed(lags: Sequence[Lags]) -> tuple[Float64, Float64]:
    """Return how long was computed for each output, and how long usually. Both are float64[n, u, k]."""
    return np.array([one.bound() for one in lags]), np.array([one.usual[one.binding] for one in lags])


def _in_range(speed: Float64, params: ReplayParams) -> Float64:
    return np.clip(np.nan_to_num(speed, nan=1.0), 1 / params.speed_range, params.speed_range)


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

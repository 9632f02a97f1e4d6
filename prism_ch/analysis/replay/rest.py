"""What a pipeline stage computes on the inputs that no output needs: the last backward passes of the first stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.replay.chains import Chain
from prism_ch.analysis.replay.lags import Lags
from prism_ch.analysis.replay.lengths import Lengths
from prism_ch.analysis.replay.outputs import Input, Output
from prism_ch.core import robust
from prism_ch.model.columns import Float64
from prism_ch.model.params import ReplayParams


@dataclass(frozen=True, slots=True)
class _Pace:
    """How long units compute on an input.

    It `takes` so long on one of usual length with usual speed; `speed` float64[u, k].
    """

    takes: float
    speed: Float64
    lengths: Lengths

    def on(self, chain: Chain, one: Input) -> Float64:
        """Return how long units of a chain compute on an input, float64[u, k]."""
        return np.asarray(self.takes * self.speed * self.lengths.of(chain, *one))


def with_rest(chain: Chain, ready: Float64, takes: float, lengths: Lengths, params: ReplayParams) -> Chain:
    """Let a stage compute on the inputs that no output needs as they come.

    Parameters: `ready` float64[k], when the first of its units is ready for the first round, NaN where no round shows
    it; `takes`, how long is computed on such an input; `lengths` of microbatches.

    What is computed on the last input ends when the stage is ready. Without a round the step ends before it.
    Where a stage computes for longer after the last input, work was put off to the end: nothing shows when it is done.
    """
    if not chain.rest or not takes > 0:
        return chain
    pace = _pace(chain, takes, lengths, params)
    before, operations, moments, found = chain.last(), list[Output](), list[Float64](), list[Lags]()
    *rest, last = chain.rest
    is_end = bool(np.isnan(ready).all())
    for one in [*rest, *([last] if is_end else [])]:
        since = np.stack([before, chain.arrived[one.link][:, :, one.number]])
        took = np.zeros(before.shape) if one is last else np.rint(pace.on(chain, one))
        before = since.max(axis=0) + took
        operations.append(Output((chain.stage, chain.stage), len(operations), (one,)))
        moments.append(before)
        lag = np.broadcast_to(before - since.max(axis=0), since.shape)
        found.append(Lags(lag, np.full(2, 0.0 if one is last else pace.takes), since.argmax(axis=0)))
    tail = ready - np.maximum(before, chain.arrived[last.link][:, :, last.number]).max(axis=0)
    if not operations or robust.median(tail) > (1 + params.put_off) * robust.median(pace.on(chain, last).ravel()):
        return chain
    return replace(
        chain,
        outputs=(*chain.outputs, *operations),
        at=np.concatenate([chain.at, np.stack(moments)]),
        lags=(*chain.lags, *found),
        rest=() if is_end else (last,),
        closing=pace.on(chain, last) / pace.takes,
    )


def _pace(chain: Chain, takes: float, lengths: Lengths, params: ReplayParams) -> _Pace:
    """Find how long units compute on the inputs that no output needs.

    Microbatches differ if what is known of their lengths leaves less unexplained than if all were alike.
    """
    alike = Lengths(lengths.lane)
    if len({one.link for one in chain.rest}) == 1:
        plain, told = (_fit(chain, chain.rest[0].link, each, params) for each in (alike, lengths))
        if plain is not None and told is not None and told[1] < plain[1]:
            return told[0]
    return _Pace(takes, chain.speed, alike)


def _fit(chain: Chain, link: tuple[int, int], lengths: Lengths, params: ReplayParams) -> tuple[_Pace, float] | None:
    """Fit what a stage computes for outputs that go back to where inputs come from.

    Some need none of these, and show what is computed for an output alone; others follow one of them, and show what is
    computed on it as well. Returns also the share that is unexplained. None without both.
    """
    mine = [place for place, one in enumerate(chain.outputs) if place and one.link == link[::-1]]
    alone = [place for place in mine if not chain.outputs[place].inputs]
    fed = [place for place in mine if [each.link for each in chain.outputs[place].inputs] == [link]]
    if not alone or not fed:
        return None
    took = np.array([one.bound() for one in chain.lags])
    long = np.array([lengths.of(chain, one.link, one.number) for one in chain.outputs])
    usual = long * robust.median((took[alone] / long[alone]).ravel())
    inputs = np.array([lengths.of(chain, *chain.outputs[place].inputs[0]) for place in fed])
    takes = float(robust.median(((took[fed] - usual[fed]) / inputs).ravel()))
    usual[fed] += takes * inputs
    if not (takes > 0 and usual[mine].min() > 0):
        return None
    longer = took[mine] / usual[mine]
    speed = np.clip(robust.median(longer, axis=0), 1 / params.speed_range, params.speed_range)
    return _Pace(takes, speed, lengths), float(robust.median(np.abs(longer / speed - 1).ravel()))


def rest_takes(chains: Sequence[Chain], stage: int) -> float:
    """Find how long a stage computes on an input that no output needs.

    NaN where nothing shows it.

    1. An output that goes on to another stage is made of such an input.
    2. One that goes back to where the input comes from is something else, which takes as long as without an input.
    3. Where there is neither, the stage that the input comes from computes as long for sending it.
    """
    chain = chains[stage]
    links = {one.link for one in chain.rest}
    if len(links) != 1:
        return float("nan")
    [link] = links
    back = (stage, link[0])
    fed, alone = _usual(chain, {link})
    on = [value for to, values in fed.items() if to != back for value in values]
    if on:
        return float(robust.median(on))
    if back in fed:
        return float(robust.median(fed[back]) - robust.median(alone.get(back, [])))
    before = chains[link[0]]
    made, turned = (_usual(before, sources)[0].get(link, []) for sources in (set(before.arrived) - {back}, {back}))
    return float(robust.median(made) if made else robust.median(turned) - robust.median(alone.get(back, [])))


def _usual(chain: Chain, links: set[tuple[int, int]]) -> tuple[dict[tuple[int, int], list[float]], ...]:
    """Collect how long outputs take by link.

    Returns those that need one input of some `links`, and those that need none.
    """
    fed, alone = dict[tuple[int, int], list[float]](), dict[tuple[int, int], list[float]]()
    for one, lags in zip(chain.outputs[1:], chain.lags[1:], strict=True):
        if one.link[0] == one.link[1]:
            continue
        if not one.inputs:
            alone.setdefault(one.link, []).append(float(lags.usual[0]))
        elif len(one.inputs) == 1 and one.inputs[0].link in links:
            fed.setdefault(one.link, []).append(float(lags.usual[-1]))
    return fed, alone

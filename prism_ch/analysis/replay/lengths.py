"""How long microbatches are: all stages of a pipeline compute on the same one, for as much longer or shorter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from prism_ch.analysis.replay.chains import Chain
from prism_ch.analysis.replay.outputs import Output
from prism_ch.core import robust
from prism_ch.model.columns import Float64, Int32


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many times longer than usual microbatches are, in each replica of a pipeline.

    `lane` int32[units] is the replica of each unit; `by_way` float64[lanes, k, n] by where messages go, 1 for on and -1
    for back, NaN where no stage shows it. Without any all microbatches are alike.
    """

    lane: Int32
    by_way: Mapping[int, Float64] = field(default_factory=dict)

    def of(self, chain: Chain, link: tuple[int, int], number: int) -> Float64:
        """Return the length of a message's microbatch, float64[u, k]. It is 1 where it is not known."""
        found = self.by_way.get(link[1] - link[0])
        if found is None or number >= found.shape[2]:
            return np.ones((len(chain.units), len(chain.begin)))
        return robust.known_or(found[self.lane[chain.units], :, number], 1.0)


def find_lengths(chains: Sequence[Chain], lane: Int32) -> Lengths:
    """Find how long microbatches are.

    Parameters: `lane` int32[units], equal for units whose stages send messages to one another.

    1. A stage that makes each output of the input of its turn computes on one microbatch for it.
    2. The median over such stages heeds no single slow one.
    3. Where only messages of one way show it, as between two stages, the n-th of the other is the same microbatch.
    """
    lanes = int(lane.max(initial=-1)) + 1
    found: dict[int, Float64] = {}
    for way in (1, -1):
        seen: list[Float64] = []
        for one in chains:
            took = _in_turn(one, (one.stage, one.stage + way))
            if took is None or (seen and seen[0].shape[2] != took.shape[2]):
                continue
            usual = robust.median(took.reshape(len(took), -1), axis=1)[:, None, None]
            longer = np.full((lanes, *took.shape[1:]), np.nan)
            longer[lane[one.units]] = np.divide(took, usual, out=np.full(took.shape, np.nan), where=usual > 0)
            seen.append(longer)
        if seen:
            found[way] = robust.median(np.array(seen), axis=0)
    for way in (1, -1):
        if -way in found:
            found.setdefault(way, found[-way])
    return Lengths(lane, found)


def _in_turn(chain: Chain, link: tuple[int, int]) -> Float64 | None:
    """Return how long units compute for the outputs of a link, float64[u, k, n].

    None if there is none, or if some are not made of one input, that of their turn.
    """

    def is_of_its_turn(one: Output) -> bool:
        return [each.number for each in one.inputs] == [one.number]

    places = [place for place, one in enumerate(chain.outputs) if one.link == link]
    if not places or not all(is_of_its_turn(chain.outputs[place]) for place in places):
        return None
    return np.array([chain.lags[place].bound() for place in places]).transpose(1, 2, 0)

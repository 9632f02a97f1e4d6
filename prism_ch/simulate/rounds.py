"""Collectives of a step, run one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from prism_ch.model.columns import Float64
from prism_ch.model.result import DP
from prism_ch.simulate.communication import Collective
from prism_ch.simulate.network import Flows, FlowTimes
from prism_ch.simulate.waits import Waits


class Round(NamedTuple):
    """One collective of a step over `size` bytes."""

    collective: Collective
    size: float
    role: int
    kind: int = DP


class RoundRuns:
    """Runs the rounds of one step and remembers their flows."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Begin without rounds; `rng` draws how they scatter."""
        self._rng = rng
        self.flows: list[FlowTimes] = []
        self.waits: list[Waits] = []

    def run(self, part: Round, ready_s: Float64, busy_until_s: Float64 | float = np.inf) -> Float64:
        """Run a round; ranks that compute until `busy_until_s` wait for it from then on."""
        flows, through_s = part.collective.run(part.size, ready_s, self._rng)
        self.waits.append(Waits.of(np.maximum(ready_s, busy_until_s), part.collective.begins(ready_s)))
        self.flows.append(flows)
        return through_s


def plan_rounds(rounds: Iterable[Round]) -> Flows:
    """Return the flows of rounds; bytes are those of each run."""
    return Flows.concatenate(part.collective.plan(part.kind, part.role) for part in rounds)

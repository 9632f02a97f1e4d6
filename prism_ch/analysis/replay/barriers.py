"""Rounds that begin on the results of others: of the round before, and of those that all stages wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.replay.draft import INPUT, ORDER, Draft
from prism_ch.core import robust
from prism_ch.model.columns import Float64, Int64


@dataclass(frozen=True, slots=True)
class Following:
    """A round whose units begin together, some time after its communicators ended the round before.

    `nodes` int64[u] when `units` int64[u] begin, `at` float64[u, k]; `done` int64[c] the ends of the round before, the
    last of them at `ended` float64[k]; `number` of the round; `near_ns`, how far apart moments are that are one.
    """

    nodes: Int64
    units: Int64
    at: Float64
    done: Int64
    ended: Float64
    number: int
    near_ns: float

    @property
    def begun(self) -> Float64:
        """When the last unit begins, float64[k]."""
        return np.asarray(self.at.max(axis=0))


def draft_following(draft: Draft, rounds: Sequence[Following]) -> None:
    """Draft what units compute on the results of rounds before.

    Stages that begin a round together though they ended the one before apart waited for one another: the norm of
    gradients is that of the whole model, and what is computed on it begins when the last stage is there.
    """
    for one in rounds:
        mates = [each for each in rounds if _waits_for(one, each)]
        ended = np.max([each.ended for each in mates], axis=0)
        lag = one.at - ended
        if len(mates) > 1:
            [all_there] = draft.nodes(ended)
            for each in mates:
                draft.edges(ORDER, each.done, np.full(len(each.done), all_there), 0.0)
            draft.edges(INPUT, np.full(len(one.nodes), all_there), one.nodes, lag, one.units)
        for node in one.done.tolist():
            draft.edges(INPUT, node, one.nodes, lag, one.units, one.number)


def _waits_for(one: Following, other: Following) -> bool:
    """Whether a round begins when another does, never before what that one waited for."""
    near = max(one.near_ns, other.near_ns)
    together = robust.median(np.abs(one.begun - other.begun)) <= near
    return bool(together and (other.ended <= one.begun + near).all())

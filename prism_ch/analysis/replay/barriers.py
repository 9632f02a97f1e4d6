"""Rounds that begin on the results of others: of the round before, and of those that all stages wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.replay.draft import INPUT, ORDER, Draft
from prism_ch.analysis.replay.ready import Seen
from prism_ch.core import robust
from prism_ch.model.columns import Float64, Int64


@dataclass(frozen=True, slots=True)
class Following:
    """A round whose units begin together, some time after its communicators ended the round before.

    `nodes` int64[u] when `units` int64[u] begin, as `seen`; `done` int64[c] the ends of the round before, the last of
    them at `ended` float64[k]; `number` of the round.
    """

    nodes: Int64
    units: Int64
    done: Int64
    ended: Float64
    number: int
    seen: Seen


def draft_following(draft: Draft, rounds: Sequence[Following]) -> None:
    """Draft what units compute on the results of rounds before.

    Stages that begin a round together though they ended the one before apart waited for one another: the norm of
    gradients is that of the whole model, and what is computed on it begins when the last stage is there.
    """
    there: dict[tuple[int, ...], int] = {}
    for one in rounds:
        mates = tuple(place for place, each in enumerate(rounds) if _waits_for(one, each))
        ended = np.max([rounds[each].ended for each in mates], axis=0)
        lag = one.seen.at - ended
        if len(mates) > 1:
            if mates not in there:
                [there[mates]] = draft.nodes(ended).tolist()
                for done in (rounds[each].done for each in mates):
                    draft.edges(ORDER, done, np.full(len(done), there[mates]), 0.0)
            draft.edges(INPUT, np.full(len(one.nodes), there[mates]), one.nodes, lag, one.units)
        for node in one.done.tolist():
            draft.edges(INPUT, node, one.nodes, lag, one.units, one.number)


def _waits_for(one: Following, other: Following) -> bool:
    """Whether a round begins when another does, never before what that one waited for."""
    if one is other:
        return True
    near = max(one.seen.near_ns, other.seen.near_ns)
    together = robust.median(np.abs(one.seen.begun - other.seen.begun)) <= near
    return bool(together and (other.ended <= one.seen.begun + near).all())

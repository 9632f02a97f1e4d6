"""Going on: a life's kinds of traffic and its steps, told anew, or as earlier windows told them if those know better.

A young job is told anew from its beginning in every window, as more of it says more. But while one rank makes all the
others wait, messages run into one another, and the more steps are slow, the less they show what a step is.
"""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.model.columns import Bool, Int32
from prism_ch.model.division import Division
from prism_ch.model.groupset import PairKinds
from prism_ch.model.newest_life import NewestLife
from prism_ch.model.params import Params
from prism_ch.model.result import JobState
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.stages import resume
from prism_ch.stages.divide import divide
from prism_ch.stages.identify import either_way, identify, name_merged


@dataclass(frozen=True, slots=True)
class LifeSteps:
    """The kinds of a life's traffic and its steps; `even_until` as of `NewestLife`."""

    kinds: PairKinds
    division: Division
    even_until: int = 0


def tell_steps(
    traffic: Traffic,
    recurring: Bool,
    merged: Bool,
    endpoints: Int32,
    state: JobState | None,
    topology: Topology,
    params: Params,
) -> LifeSteps:
    """Tell the kinds of a life's traffic and divide its time into steps.

    Parameters: `recurring` and `merged` bool[pairs], the pairs that carry its steady traffic, and those of which the
    records run on over many steps; `endpoints` int32[m], its members; `state`, what was known of the job.
    Kinds and steps of a settled job stay. So do those of a young one that is slow, where what is told anew contradicts
    them, and going on with them does not.
    """
    unresolved = either_way(traffic, merged)
    found = identify(traffic, recurring & ~unresolved, params.identify)

    def told(known: Division | None, even_until: int) -> LifeSteps:
        """Tell kinds and steps, going on with known ones where some are given."""
        kept = found if known is None or state is None else resume.keep_known_kinds(found, traffic, state, topology)
        kinds = name_merged(kept, traffic, unresolved, params.merged)
        return LifeSteps(kinds, divide(traffic, kinds, endpoints, params.divide, known), even_until)

    known = resume.known_steps(state, params.going_on)
    even_until = 0 if state is None else NewestLife.of(state.job).even_until
    if known is None or even_until or resume.is_settled(state, params.going_on):
        return told(known, even_until)
    anew = told(None, 0)
    if resume.confirms(anew.division, known, params.going_on):
        return anew
    as_known = told(known, known.steps)
    stays = resume.confirms(as_known.division, known, params.going_on)
    return as_known if stays and resume.is_slow(as_known.division, known, params.going_on) else anew

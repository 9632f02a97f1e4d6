"""The kinds of an attempt's traffic and its steps, found anew or gone on with where earlier windows know better.

A young job is examined from its beginning in every window, as more of it says more. But while one rank makes all the
others wait, messages run into one another: the more steps are slow, the less they show what a step is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.continuity import resume
from prism_ch.analysis.continuity.same_job import Load, measure_load
from prism_ch.analysis.jobs.job_traffic import JobTraffic, recurring_pairs
from prism_ch.analysis.roles.merged import either_way, hidden_answers, name_merged
from prism_ch.analysis.roles.roles import identify
from prism_ch.analysis.steps.steps import divide
from prism_ch.model.columns import Int32
from prism_ch.model.job import Division, PairKinds, RecognisedJob
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class AttemptSteps:
    """One attempt of a job with the kinds of its traffic and its steps; `even_until` as of Attempt.

    `load` is what it moves in a step, None while too few steps are known to say.
    """

    attempt: RecognisedJob
    traffic: JobTraffic
    kinds: PairKinds
    division: Division
    even_until: int = 0
    load: Load | None = None

    @property
    def bursts(self) -> Traffic:
        """Its bursts."""
        return self.traffic.bursts


def divide_attempt(
    attempt: RecognisedJob, around: JobTraffic, memory: JobMemory | None, topology: Topology, params: Params
) -> AttemptSteps | None:
    """Find the kinds of an attempt's traffic and divide its time into steps.

    Parameters: `around`, all traffic of the window; `memory`, what was known of the job. Returns None if what repeats
    is no training.
    """
    settled = memory is not None and memory.is_settled(params.going_on)
    seen = around.within(attempt.endpoints, attempt.begin_ns, attempt.end_ns).since(attempt.steady_ns)
    recurring = recurring_pairs(seen.bursts, topology, params.recognise) & ~seen.coarse
    seen = replace(seen, recurring=recurring)
    if memory is not None and settled:
        seen = seen.since(memory.context_start_ns(params.going_on))
    seen = replace(seen, merged=seen.merged | hidden_answers(seen.bursts, seen.recurring, params.identify))
    found = _find_steps(attempt, seen, memory, params)
    if not settled and not _trains(found, topology, params):
        return None
    return replace(found, load=measure_load(seen.bursts, found.kinds, found.division))


def _find_steps(attempt: RecognisedJob, seen: JobTraffic, memory: JobMemory | None, params: Params) -> AttemptSteps:
    """Find kinds and steps, anew or as they were known.

    1. A settled job goes on with the kinds and steps that are known.
    2. A young one is examined anew, and that counts if it confirms the steps that were known.
    3. Where it does not, and going on with the known steps does, and the newest steps are slow, those are gone on with,
       from then on also in later windows (`even_until`).
    """
    unresolved = either_way(seen.bursts, seen.merged)
    found = identify(seen.bursts, seen.recurring & ~unresolved, params.identify)

    def steps(known: Division | None, even_until: int) -> AttemptSteps:
        kinds = found
        if known is not None and memory is not None:
            kinds = resume.keep_known_kinds(found, seen.bursts, memory)
        kinds = name_merged(kinds, seen.bursts, unresolved, params.merged)
        division = divide(seen.bursts, kinds, attempt.endpoints, params.divide, known)
        return AttemptSteps(attempt, seen, kinds, division, even_until)

    known = resume.known_steps(memory, params.going_on)
    even_until = 0 if memory is None else memory.attempt.even_until
    if known is None or memory is None or even_until or memory.is_settled(params.going_on):
        return steps(known, even_until)
    anew = steps(None, 0)
    if resume.confirms(anew.division, known, params.going_on):
        return anew
    as_known = steps(known, known.steps)
    stays = resume.confirms(as_known.division, known, params.going_on)
    return as_known if stays and resume.is_slow(as_known.division, known, params.going_on) else anew


def _trains(found: AttemptSteps, topology: Topology, params: Params) -> bool:
    """Say whether what repeats is training: its steps are alike, or still so few that nobody can tell.

    In training all data goes round; where a server only sends or only receives, as to hand out or to collect, a few
    steps are not enough.
    """
    pairs = (found.bursts.pair_src, found.bursts.pair_dst)
    senders, receivers = (_servers(side[found.traffic.steady], topology) for side in pairs)
    judged = found.division.steps >= params.divide.judged_steps
    goes_round = np.array_equal(senders, receivers)
    return found.division.regular >= params.divide.min_regularity and (judged or goes_round)


def _servers(endpoints: Int32, topology: Topology) -> Int32:
    return np.unique(topology.server[endpoints])

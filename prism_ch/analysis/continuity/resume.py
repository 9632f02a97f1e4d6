"""The steps of an attempt: found anew, or resumed where earlier windows know better.

What is published of a job stays, and new steps are added. But more of it shows more: while the newest attempt is young,
all of it is found again from its beginning, until that finds the steps that were known, and then each time they have
doubled, so that all of this costs but a few times its flows. While one rank makes all the others wait, messages run
into one another: the more steps are slow, the less they show what a step is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from prism_ch.analysis.continuity.same_job import Load, measure_load
from prism_ch.analysis.jobs.job_traffic import JobTraffic, recurring_pairs
from prism_ch.analysis.roles.merged import either_way, hidden_answers, name_merged
from prism_ch.analysis.roles.roles import identify
from prism_ch.analysis.steps.steps import divide
from prism_ch.core import robust
from prism_ch.core.pairs import PairIndex
from prism_ch.model.columns import Bool, Int64
from prism_ch.model.job import Division, PairKinds, RecognisedJob
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import ContinueParams, Params
from prism_ch.model.result import OTHER, GpuSteps, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class AttemptSteps:
    """One attempt of a job with the kinds of its traffic and its steps.

    `even_until` is that of Attempt; `load` is what it moves in a step, None while too few steps are known. `is_sure`:
    its steps are those that were known before, and more.
    """

    attempt: RecognisedJob
    traffic: JobTraffic
    kinds: PairKinds
    division: Division
    even_until: int = 0
    load: Load | None = None
    is_sure: bool = False

    @property
    def bursts(self) -> Traffic:
        """Its bursts."""
        return self.traffic.bursts

    @property
    def is_plain(self) -> bool:
        """Whether each pair carries one kind of traffic."""
        return bool((self.kinds.burst == self.kinds.kind[self.bursts.pair]).all())


@dataclass(frozen=True, slots=True)
class NewSteps:
    """The new steps of a division: the first is number `first_step` and begins at `start_ns` int64[m].

    `start_ns` is None where nothing came before.
    """

    division: Division
    first_step: int
    start_ns: Int64 | None


def divide_attempt(
    attempt: RecognisedJob,
    around: JobTraffic,
    memory: JobMemory | None,
    topology: Topology,
    params: Params,
    *,
    is_hidden: bool,
) -> AttemptSteps | None:
    """Find the kinds of an attempt's traffic and divide its time into steps.

    Parameters: `around`, all traffic of the window; `memory`, what was known of the job; `is_hidden`, whether some of
    its records are missing. Returns None if what repeats is no training: steps are not alike, or few while some server
    only sends or only receives, or all do.
    """
    settled = memory is not None and memory.is_settled(params.going_on)
    seen = around.within(attempt.endpoints, attempt.begin_ns, attempt.end_ns).since(attempt.steady_ns)
    recurring = recurring_pairs(seen.bursts, topology, params.recognise) & ~seen.coarse
    seen = replace(seen, recurring=recurring)
    if memory is not None and settled:
        seen = seen.since(memory.context_start_ns(params.going_on))
    seen = replace(seen, merged=seen.merged | hidden_answers(seen.bursts, seen.recurring, params.identify))
    known = known_steps(memory, params.going_on)
    found = _find_steps(attempt, seen, memory, known, params, is_hidden=is_hidden)
    if not settled and not _trains(found, topology, params, known=memory is not None):
        return None
    return replace(found, load=measure_load(seen.bursts, found.kinds, found.division))


def _find_steps(
    attempt: RecognisedJob,
    seen: JobTraffic,
    memory: JobMemory | None,
    known: Division | None,
    params: Params,
    *,
    is_hidden: bool,
) -> AttemptSteps:
    """Find kinds and steps, anew or as they were known.

    1. A settled job goes on with the kinds and steps that are known, and so does one of which records are missing: a
       link of which only one direction is seen looks like another kind.
    2. A young one is examined anew, and is sure of its steps if they are those that were known.
    3. If they are not, but a division that goes on with the known steps has them, that one counts if some steps since
       are slow, or its steps are more even than those found anew; from then on also in later windows (`even_until`).
    """
    unresolved = either_way(seen.bursts, seen.merged)

    @cache
    def identified() -> PairKinds:
        return identify(seen.bursts, seen.recurring & ~unresolved, params.identify)

    def steps(known: Division | None, even_until: int) -> AttemptSteps:
        if known is None or memory is None:
            kinds = identified()
        else:
            kinds = known_kinds(seen.bursts, memory) or keep_known_kinds(
                identified(), seen.bursts, memory, params.going_on
            )
        kinds = name_merged(kinds, seen.bursts, unresolved, params.merged)
        division = divide(seen.bursts, kinds, attempt.endpoints, params.divide, known)
        return AttemptSteps(attempt, seen, kinds, division, even_until, is_sure=known is not None)

    even_until = 0 if memory is None else memory.attempt.even_until
    if known is None or memory is None or even_until or is_hidden or memory.is_settled(params.going_on):
        return steps(known, even_until)
    anew = steps(None, 0)
    if confirms(anew.division, known, params.going_on):
        return replace(anew, is_sure=True)
    if known.steps < params.going_on.judged_steps:
        return anew
    as_known = steps(known, known.steps)
    if not confirms(as_known.division, known, params.going_on):
        return anew
    examined = min(memory.attempt.examined or known.steps, known.steps)
    if is_slow(as_known.division, known, examined, params.going_on):
        return as_known
    even, even_anew = (evenness(one.division, params.going_on) for one in (as_known, anew))
    return as_known if even > even_anew + params.going_on.little else anew


def examined_steps(found: AttemptSteps, params: ContinueParams) -> int:
    """Count the steps that need not be found again until they have doubled. There are none while few are not sure."""
    steps = found.division.steps
    return steps if found.is_sure or steps >= params.settled_steps else 0


def _trains(found: AttemptSteps, topology: Topology, params: Params, *, known: bool) -> bool:
    """Return whether steps are alike and data go round in them. If steps are many, some servers are enough.

    Training hands on what it gets, in rings and pipelines. Transfers from servers that only send to servers that only
    receive, as of caches from prefill to decoding, are none, however regular they are. A job that is `known` has shown
    that it does.
    """
    senders, receivers = (
        np.unique(topology.server[side[found.traffic.steady]])
        for side in (found.bursts.pair_src, found.bursts.pair_dst)
    )
    judged = found.division.steps >= params.divide.judged_steps
    hands_on = np.isin(senders, receivers)
    goes_round = len(senders) == len(receivers) and bool(hands_on.all())
    return found.division.regular >= params.divide.min_regularity and (
        goes_round or bool(judged and (known or hands_on.any()))
    )


def keep_known_kinds(kinds: PairKinds, traffic: Traffic, memory: JobMemory, params: ContinueParams) -> PairKinds:
    """Give the pairs of a known job the kinds that they had.

    A pair that was `other` may have been new. Where pairs carried two kinds and some of what one carries now is of the
    kind that it had, bursts keep their own kinds: a larger batch moves more of one. Where each carried one, messages
    that run into one another while somebody waits only look like a second one.
    """
    if len(memory.pairs) == 0:
        return kinds
    row, found = _known_pairs(traffic, memory)
    kind = np.where(found, memory.pairs.kind[row], kinds.kind)
    confidence = np.where(found, memory.pairs.confidence[row], kinds.confidence)
    known = kind[traffic.pair]
    moved, as_known = (
        np.bincount(traffic.pair, weights=traffic.payload * of_kind, minlength=len(kind))
        for of_kind in (np.ones(len(known)), kinds.burst == known)
    )
    renamed = (kind != kinds.kind) & (as_known < params.little * moved)
    changed = (renamed | (found & memory.attempt.is_plain))[traffic.pair]
    return PairKinds(kind, confidence, np.where(changed, known, kinds.burst))


def known_kinds(traffic: Traffic, memory: JobMemory) -> PairKinds | None:
    """Return the kinds of a known job's pairs, None unless each had one."""
    if not memory.attempt.is_plain or len(memory.pairs) == 0:
        return None
    row, found = _known_pairs(traffic, memory)
    if not found.all():
        return None
    kind = memory.pairs.kind[row]
    return PairKinds(kind, memory.pairs.confidence[row], kind[traffic.pair])


def _known_pairs(traffic: Traffic, memory: JobMemory) -> tuple[Int64, Bool]:
    """Return each pair's row among known ones, int64[pairs], and whether its kind is."""
    row = PairIndex.of(memory.pairs.src, memory.pairs.dst).rows_of(traffic.pair_src, traffic.pair_dst)
    return row, (row >= 0) & (memory.pairs.kind[row] != OTHER)


def known_steps(memory: JobMemory | None, params: ContinueParams) -> Division | None:
    """Return the published steps that show what a new one is; None if too few.

    Of a settled job those are the newest, as many as are looked back over; of a young one that became slow, those known
    by then; else all. An endpoint that joined after a step ended it with the job.
    """
    if memory is None:
        return None
    attempt, first, until = memory.attempt, memory.attempt.first_step, memory.job.steps
    if memory.is_settled(params):
        first = until - params.recent_steps
    elif attempt.even_until:
        until = first + attempt.even_until
    steps = memory.steps.take((memory.steps.step >= first) & (memory.steps.step < until))
    if len(steps) < params.enough:
        return None
    mine = memory.gpu_steps
    endpoints, row = np.unique(mine.endpoint, return_inverse=True)
    end_ns = np.tile(steps.end_ns, (len(endpoints), 1))
    recent = np.isin(mine.step, steps.step)
    end_ns[row[recent], np.searchsorted(steps.step, mine.step[recent])] = mine.end_ns[recent]
    return Division(endpoints, end_ns, np.ones(len(steps), dtype=bool))


def confirms(division: Division, known: Division, params: ContinueParams) -> bool:
    """Return whether a division holds nearly all known steps and hardly any others."""
    ends_ns, known_ns = division.job_end_ns(), known.job_end_ns()
    near_ns = params.same_boundary * float(np.median(np.diff(known_ns)))
    place = np.searchsorted(ends_ns, known_ns - near_ns)
    found = np.append(ends_ns, np.iinfo(np.int64).max)[place] <= known_ns + near_ns
    within = np.count_nonzero((ends_ns > known_ns[0] - near_ns) & (ends_ns < known_ns[-1] + near_ns))
    few = (1 - params.nearly_all) * len(known_ns)
    return bool(np.count_nonzero(~found) <= few and within <= len(known_ns) + few)


def is_slow(division: Division, known: Division, examined: int, params: ContinueParams) -> bool:
    """Check whether steps take longer than most since the known ones were examined, beyond chance.

    Parameters: `examined`, how many of the known ones were. Messages run into one another as soon as somebody waits, by
    however little.
    """
    known_ns, ends_ns = known.job_end_ns(), division.job_end_ns()
    lasts_ns = np.diff(known_ns).astype(np.float64)
    usual_ns = float(np.quantile(lasts_ns, 0.25))
    chance_ns = params.min_score * float(robust.mad(lasts_ns))
    since = ends_ns[1:] > known_ns[max(examined - 2 * params.slow_steps, 0)]
    slow = np.diff(ends_ns)[since] > usual_ns + min(chance_ns, params.notable * usual_ns)
    return bool(np.count_nonzero(slow) >= params.slow_steps)


def evenness(division: Division, params: ContinueParams) -> float:
    """Return the share of steps that take about as long as the one before."""
    lasts_ns = np.diff(division.job_end_ns()).astype(np.float64)
    if len(lasts_ns) <= 1:
        return 0.0
    alike = np.abs(np.diff(lasts_ns)) <= params.notable * np.minimum(lasts_ns[1:], lasts_ns[:-1])
    return float(np.mean(alike))


def what_stays(memory: JobMemory | None, params: ContinueParams) -> JobMemory | None:
    """Return what is known of a job before its young attempt, or None."""
    if memory is None:
        return None
    attempt, steps, gpu_steps = memory.attempt, memory.steps, memory.gpu_steps
    stays = replace(memory, groups=memory.groups[: attempt.earlier_groups])
    if memory.is_settled(params):
        return stays
    if attempt.first_step == 0:
        return None
    return replace(
        stays,
        steps=steps.take(steps.step < attempt.first_step),
        gpu_steps=gpu_steps.take(gpu_steps.step < attempt.first_step),
        findings=tuple(finding for finding in memory.findings if finding.start_ns < attempt.begin_ns),
    )


def go_on(division: Division, memory: JobMemory, params: ContinueParams) -> NewSteps:
    """Keep the steps of a settled job's division that are not yet published."""
    published = int(memory.steps.end_ns[-1])
    step_ns = float(np.median(memory.steps.end_ns - memory.steps.start_ns))
    new = int(np.searchsorted(division.job_end_ns(), published + params.same_boundary * step_ns))
    # The span looked at may cut the first step of a division, but the published steps before it show that it does not.
    fresh = Division(division.endpoints, division.end_ns[:, new:], np.ones(division.steps - new, dtype=bool))
    return _after(fresh, memory.steps, memory.gpu_steps)


def begin_anew(division: Division, steps: Steps, gpu_steps: GpuSteps) -> NewSteps:
    """Add the steps of another attempt to those of earlier ones, if there are any.

    The time from the last step that was finished to the end of the first new one is not what a step takes. Those that
    ended by then are known: records that come back after a hole may look like another attempt.
    """
    if len(steps) == 0:
        return NewSteps(division, 0, None)
    new = int(np.searchsorted(division.job_end_ns(), steps.end_ns[-1], side="right"))
    whole = division.whole[new:].copy()
    whole[:1] = False
    return _after(replace(division, end_ns=division.end_ns[:, new:], whole=whole), steps, gpu_steps)


def _after(division: Division, steps: Steps, gpu_steps: GpuSteps) -> NewSteps:
    """Begin a division on each endpoint where its last step ended, or else the job's."""
    last = gpu_steps.take(gpu_steps.step == steps.step[-1])
    start = np.full(len(division.endpoints), int(steps.end_ns[-1]))
    place = np.minimum(division.rows_of(last.endpoint), len(division.endpoints) - 1)
    member = division.endpoints[place] == last.endpoint
    start[place[member]] = last.end_ns[member]
    return NewSteps(division, int(steps.step[-1]) + 1, start)

"""Succession: whether a life that takes over endpoints from one that ended is the same job, begun anew.

A restart goes on with the same model divided in the same way: its activations have as many bytes, and a step reduces as
many bytes of gradients. Servers may be others, and replicas more or fewer: a ring of d members passes 2 (d - 1) / d of
the gradients along each edge, so what is compared is that, too. What has no pipeline in common, or other bytes, is
another job; two runs of the very same configuration can't be told from a restart, and are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from prism_ch.core.arrays import group_search
from prism_ch.core.graph import components
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.job import Division, PairKinds, RecognisedJob
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic

#: Two whole steps after the one that the life began with.
_LEAST_STEPS = 3
#: Of all that a life moves: half, and the middles of so many parts that sizes of each stand for all bursts.
_HALF = np.array([0.5])
_PARTS = (np.arange(64) + 0.5) / 64


@dataclass(frozen=True, slots=True)
class Load:
    """What one life of a job moves, by the median step; amounts of traffic that it does not have are 0.

    `message` bytes of a pipeline's usual message, `relayed` bytes of them a sender and step, `reduced` bytes of
    gradients a sender and step, in rings of usually `replicas` (1 without); `step_s` seconds a step, of the `seen_s`
    that there is traffic. `bursts` float64[k], rising, are sizes of its bursts, of whatever kind, see `_sizes`.
    """

    endpoints: Int32
    steps: int
    message: float
    relayed: float
    reduced: float
    replicas: float
    step_s: float
    seen_s: float
    bursts: Float64


class Measured(Protocol):
    """One life of a job with what it moves, None where it made too few steps to say."""

    @property
    def attempt(self) -> RecognisedJob:
        """Its members, since when and until when."""

    @property
    def load(self) -> Load | None:
        """What it moves."""


Life = TypeVar("Life", bound=Measured)


def join_attempts(attempts: Sequence[Life], least_shared: float, params: ContinueParams) -> list[list[Life]]:
    """Put the lives of each job together, in order.

    A life that is over before it made steps enough to say what it moves was no training, or too little to tell. One
    that took over from another, but has not yet made as many, is left for a later window, and what follows it is held
    against the one before: while few steps are seen, the passes of a pipeline may look like lives. `least_shared`: as
    for `goes_on`.
    """
    by_name = {one.attempt.job_id: one for one in attempts}
    job_of: dict[str, list[Life]] = {}
    left: set[str] = set()
    jobs = []
    for one in sorted(attempts, key=lambda measured: measured.attempt.begin_ns):
        before = None if one.attempt.known else _before(one, by_name, left)
        answer = False if before is None else _is_one_job(before, one, least_shared, params)
        if answer is None or (_is_unclear(one) and one.attempt.is_over):
            left.add(one.attempt.job_id)
            continue
        job = job_of[before.attempt.job_id] if before is not None and answer else []
        if not job or job[-1] is not before:
            job = []
            jobs.append(job)
        job.append(one)
        job_of[one.attempt.job_id] = job
    return jobs


def _is_unclear(one: Measured) -> bool:
    """Say whether a life is new and has not made steps enough to say what it moves."""
    return one.load is None and not one.attempt.known


def _before(one: Life, by_name: Mapping[str, Life], left: AbstractSet[str]) -> Life | None:
    """Return the life that one took over from, passing over those too short to tell, or `left` for a later window."""
    before = by_name.get(one.attempt.follows)
    while before is not None and (_is_unclear(before) or before.attempt.job_id in left):
        before = by_name.get(before.attempt.follows)
    return before


def _is_one_job(before: Measured, after: Measured, least_shared: float, params: ContinueParams) -> bool | None:
    """Say whether a life goes on with the job that it took over from; None where that can't be told yet.

    Of a job known before that made too few steps to compare with, it does.
    """
    if after.load is None:
        return None
    if before.load is None:
        return True
    one = goes_on(before.load, after.load, least_shared, params)
    return one or (None if is_too_early(before.load, after.load, params) else False)


def measure_load(traffic: Traffic, kinds: PairKinds, division: Division) -> Load | None:
    """Measure what a life moves; None with too few steps to tell what is usual."""
    if division.steps < _LEAST_STEPS:
        return None
    typed = traffic.take(kinds.burst != OTHER)
    pipeline, collective = (kinds.of_kind(traffic, kind) for kind in (PP, DP))
    return Load(
        division.endpoints,
        division.steps,
        float(_sizes(pipeline.payload, _HALF)[0]),
        _payload_a_step(pipeline, division),
        _payload_a_step(collective, division),
        _usual_group(collective),
        float(np.median(np.diff(division.job_end_ns()))) / 1e9,
        (int(typed.end_ns.max()) - int(typed.start_ns.min())) / 1e9,
        _sizes(typed.payload, _PARTS),
    )


def is_too_early(before: Load, after: Load, params: ContinueParams) -> bool:
    """Say whether a life that does not seem to go on with an earlier one may yet turn out to.

    It has not lasted for some steps of the other: a pipeline repeats within one step, and shows before the gradients.
    Or its bursts are the same, and a few steps may not tell their kinds well, nor, when they are fewer still, how many
    of them there are in a step: layers repeat as well.
    """
    if after.seen_s < _LEAST_STEPS * before.step_s:
        return True
    if not _same_bursts(before, after, params):
        return False
    same_kinds = _alike(before.message, after.message, params) and (before.reduced > 0) == (after.reduced > 0)
    in_few = after.seen_s < params.shown_steps * before.step_s
    return in_few or (not same_kinds and after.steps < params.settled_steps)


def _same_bursts(before: Load, after: Load, params: ContinueParams) -> bool:
    """Say whether nearly all that a later life moves is in bursts such as there were in an earlier one.

    Or such as they would in rings of as many members as the later one has.
    """
    resized = before.bursts * _ring_share(after.replicas) / _ring_share(before.replicas)
    distance = np.minimum(*(_nearest(known, after.bursts) for known in (before.bursts, resized)))
    return float(np.mean(distance <= params.same_load)) >= params.nearly_all


def _nearest(known: Float64, bursts: Float64) -> Float64:
    """Return how far each burst is from the nearest of some known ones, in rising order, in logarithms."""
    place = np.searchsorted(known, bursts)
    near = [known[np.clip(place + side, 0, len(known) - 1)] for side in (-1, 0)]
    return np.asarray(np.min(np.abs(np.log(bursts / near)), axis=0))


def _ring_share(members: float) -> float:
    """Return which share of a buffer passes along an edge of a ring in one of its two rounds; 1 without a ring."""
    return (members - 1) / members if members > 1 else 1.0


def goes_on(before: Load, after: Load, least_shared: float, params: ContinueParams) -> bool:
    """Say whether a later life is the same job as an earlier one.

    Parameters: `least_shared`, the share of the endpoints of the smaller one that both must have.
    """
    shared = len(np.intersect1d(before.endpoints, after.endpoints, assume_unique=True))
    if shared < least_shared * min(len(before.endpoints), len(after.endpoints)):
        return False
    return _moves_the_same(before, after, params) or _moves_the_same(
        before, _in_whole_steps(before, after, params), params
    )


def _in_whole_steps(before: Load, after: Load, params: ContinueParams) -> Load:
    """Return what a later life moves in steps as long as those of an earlier one, where it moves the same bursts.

    Few steps may be cut in parts that are alike, as where gradients are reduced in two parts.
    """
    parts = round(before.step_s / after.step_s)
    if parts <= 1 or not _same_bursts(before, after, params):
        return after
    return replace(after, relayed=parts * after.relayed, reduced=parts * after.reduced, step_s=parts * after.step_s)


def _moves_the_same(before: Load, after: Load, params: ContinueParams) -> bool:
    """Say whether a later life moves as many bytes a step as an earlier one."""
    # The microbatches of a step stay as many, or replicas that are fewer share out those of all.
    relayed = _alike(before.relayed, after.relayed, params) or _alike(
        before.relayed * before.replicas, after.relayed * after.replicas, params
    )
    ring = [load.reduced / _ring_share(load.replicas) for load in (before, after)]
    reduced = _alike(before.reduced, after.reduced, params) or _alike(ring[0], ring[1], params) or min(ring) == 0
    return _alike(before.message, after.message, params) and relayed and reduced


def _alike(one: float, other: float, params: ContinueParams) -> bool:
    """Say whether two amounts are the same but for lost records."""
    return abs(one - other) <= params.same_load * max(one, other)


def _sizes(payload: Int64, shares: Float64) -> Float64:
    """Return the sizes of burst that shares of the payload are moved in smaller ones than, float64[k]; 0 of nothing."""
    if len(payload) == 0:
        return np.zeros(len(shares))
    ordered = np.sort(payload)
    moved = np.cumsum(ordered)
    return np.asarray(ordered[np.searchsorted(moved, shares * moved[-1])], dtype=np.float64)


def _payload_a_step(traffic: Traffic, division: Division) -> float:
    """Return what a sender moves in a usual step, the first left out, on average; 0 where there is none.

    What is usual is asked pair by pair: some records of all pairs are lost in any step, but those of one pair seldom,
    and more of them where fewer exporters see its flows.
    """
    if len(traffic) == 0:
        return 0.0
    row = np.searchsorted(division.endpoints, traffic.src)
    lines = np.arange(len(division.endpoints), dtype=np.int32)
    step = group_search(
        np.repeat(lines, division.steps), division.end_ns.ravel(), row.astype(np.int32), traffic.end_ns - 1
    )
    step -= row * division.steps
    inside = step < division.steps
    moved = np.bincount(
        traffic.pair[inside] * np.int64(division.steps) + step[inside],
        weights=traffic.payload[inside],
        minlength=len(traffic.pair_src) * division.steps,
    ).reshape(-1, division.steps)
    return float(np.median(moved[:, 1:], axis=1).sum()) / len(np.unique(traffic.pair_src))


def _usual_group(collective: Traffic) -> float:
    """Return how many endpoints are usually joined by a collective's traffic, 1 where there is none."""
    ends = np.concatenate([collective.pair_src, collective.pair_dst])
    if len(ends) == 0:
        return 1.0
    label = components(int(ends.max()) + 1, collective.pair_src, collective.pair_dst)
    return float(np.median(np.bincount(label[np.unique(ends)])[np.unique(label[ends])]))

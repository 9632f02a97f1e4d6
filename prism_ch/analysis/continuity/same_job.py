"""Whether an attempt that takes over endpoints from one that ended is the same job, begun anew.

A restart goes on with the same model divided in the same way: its activations have as many bytes, and a step reduces as
many bytes of gradients. Servers may be others, and replicas more or fewer: a ring of d members passes 2 (d - 1) / d of
the gradients along each edge, so that is compared, too. What has no pipeline in common, or other bytes, is another job;
two runs of the very same configuration look like a restart, and are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.core.arrays import distinct
from prism_ch.core.graph import components
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.job import Division, PairKinds, RecognisedJob
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic

#: Two whole steps after the one that the attempt began with.
_LEAST_STEPS = 3
#: Of all that an attempt moves: half, and the middles of 64 parts, whose sizes stand for those of all bursts.
_HALF = np.array([0.5])
_PARTS = (np.arange(64) + 0.5) / 64


@dataclass(frozen=True, slots=True)
class Load:
    """What one attempt of a job moves, by the median step; amounts of traffic that it does not have are 0.

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


def join_attempts(
    attempts: Sequence[RecognisedJob], loads: Sequence[Load | None], least_shared: float, params: ContinueParams
) -> list[list[int]]:
    """Return the rows of each job's attempts, in order.

    Parameters: `loads`, what each attempt moves, None if it made too few steps; `least_shared`, see `goes_on`.

    1. An attempt that is over before it made enough steps was no training, or too little of it: leave it out.
    2. One that took over from another, but has not yet made enough, is left for a later window: while few steps are
       seen, the passes of a pipeline may look like attempts.
    3. Compare any other with the newest attempt before it that was not left out.
    """
    row_of = {attempt.job_id: row for row, attempt in enumerate(attempts)}
    left = {row for row, load in enumerate(loads) if load is None and not attempts[row].known}
    job_of: dict[int, list[int]] = {}
    jobs: list[list[int]] = []
    for row in sorted(range(len(attempts)), key=lambda row: attempts[row].begin_ns):
        attempt, load = attempts[row], loads[row]
        before = None if attempt.known else row_of.get(attempt.follows)
        while before is not None and before in left:
            before = row_of.get(attempts[before].follows)
        answer = False if before is None else _is_one_job(loads[before], load, least_shared, params)
        if answer is None or (row in left and attempt.is_over):
            left.add(row)
            continue
        job = job_of[before] if before is not None and answer else []
        if not job or job[-1] != before:
            job = []
            jobs.append(job)
        job.append(row)
        job_of[row] = job
    return jobs


def _is_one_job(before: Load | None, after: Load | None, least_shared: float, params: ContinueParams) -> bool | None:
    """Return whether an attempt goes on with the one before; None while open.

    Of a job known before that made too few steps to compare with, it does.
    """
    if after is None or before is None:
        return None if after is None else True
    if goes_on(before, after, least_shared, params):
        return True
    return None if is_too_early(before, after, params) else False


def measure_load(traffic: Traffic, kinds: PairKinds, division: Division) -> Load | None:
    """Measure what an attempt moves; None with too few steps."""
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


def goes_on(before: Load, after: Load, least_shared: float, params: ContinueParams) -> bool:
    """Return whether a later attempt is the same job as an earlier one.

    Parameters: `least_shared`, the share of the endpoints of the smaller one that both must have. Few steps may be cut
    in parts that are alike, as where gradients are reduced in two parts: then whole steps are compared.
    """
    shared = len(np.intersect1d(before.endpoints, after.endpoints, assume_unique=True))
    if shared < least_shared * min(len(before.endpoints), len(after.endpoints)):
        return False
    if _moves_the_same(before, after, params):
        return True
    parts = round(before.step_s / after.step_s)
    if parts <= 1 or not _same_bursts(before, after, params):
        return False
    return _moves_the_same(before, replace(after, relayed=parts * after.relayed, reduced=parts * after.reduced), params)


def is_too_early(before: Load, after: Load, params: ContinueParams) -> bool:
    """Return whether an attempt may yet turn out to go on with an earlier one.

    1. It has not lasted for some steps of the other: a pipeline repeats within one step, and shows before gradients.
    2. Or its bursts are the same, and it made few steps: layers repeat as well, and kinds may not be known yet.
    """
    if after.seen_s < _LEAST_STEPS * before.step_s:
        return True
    if not _same_bursts(before, after, params):
        return False
    same_kinds = _alike(before.message, after.message, params) and (before.reduced > 0) == (after.reduced > 0)
    in_few = after.seen_s < params.shown_steps * before.step_s
    return in_few or (not same_kinds and after.steps < params.settled_steps)


def _moves_the_same(before: Load, after: Load, params: ContinueParams) -> bool:
    """Return whether a later attempt moves as many bytes a step as an earlier one."""
    # The microbatches of a step stay as many, or replicas that are fewer share out those of all.
    relayed = _alike(before.relayed, after.relayed, params) or _alike(
        before.relayed * before.replicas, after.relayed * after.replicas, params
    )
    ring = [load.reduced / _ring_share(load.replicas) for load in (before, after)]
    reduced = _alike(before.reduced, after.reduced, params) or _alike(ring[0], ring[1], params) or min(ring) == 0
    return _alike(before.message, after.message, params) and relayed and reduced


def _alike(one: float, other: float, params: ContinueParams) -> bool:
    return abs(one - other) <= params.same_load * max(one, other)


def _same_bursts(before: Load, after: Load, params: ContinueParams) -> bool:
    """Return whether nearly all bursts have sizes of an earlier attempt's.

    Or in the sizes they would have in rings of as many members as the later one has.
    """
    resized = before.bursts * _ring_share(after.replicas) / _ring_share(before.replicas)
    distance = np.minimum(*(_distance(known, after.bursts) for known in (before.bursts, resized)))
    return float(np.mean(distance <= params.same_load)) >= params.nearly_all


def _distance(known: Float64, bursts: Float64) -> Float64:
    """Return how far each burst is from the nearest known one, in logarithms; `known` rises."""
    place = np.searchsorted(known, bursts)
    near = [known[np.clip(place + side, 0, len(known) - 1)] for side in (-1, 0)]
    return np.asarray(np.min(np.abs(np.log(bursts / near)), axis=0))


def _ring_share(members: float) -> float:
    """Return the share of a buffer that passes a ring's edge in each round."""
    return (members - 1) / members if members > 1 else 1.0


def _sizes(payload: Int64, shares: Float64) -> Float64:
    """Return quantiles of burst size, weighted by payload, at `shares`, float64[k]; 0 of nothing."""
    if len(payload) == 0:
        return np.zeros(len(shares))
    ordered = np.sort(payload)
    moved = np.cumsum(ordered)
    return np.asarray(ordered[np.searchsorted(moved, shares * moved[-1])], dtype=np.float64)


def _payload_a_step(traffic: Traffic, division: Division) -> float:
    """Return what senders move in a usual step after the first, on average.

    The usual step is the median of each pair: any step lacks some records, but seldom those of one pair.
    """
    if len(traffic) == 0:
        return 0.0
    step = division.step_of(division.rows_of(traffic.src), traffic.end_ns)
    inside = step < division.steps
    moved = np.bincount(
        traffic.pair[inside] * np.int64(division.steps) + step[inside],
        weights=traffic.payload[inside],
        minlength=len(traffic.pair_src) * division.steps,
    ).reshape(-1, division.steps)
    return float(np.median(moved[:, 1:], axis=1).sum()) / len(distinct(traffic.pair_src))


def _usual_group(collective: Traffic) -> float:
    """Return the usual number of endpoints that collectives join; 1 without any."""
    ends = np.concatenate([collective.pair_src, collective.pair_dst])
    if len(ends) == 0:
        return 1.0
    label = components(int(ends.max()) + 1, collective.pair_src, collective.pair_dst)
    return float(np.median(np.bincount(label[np.unique(ends)])[np.unique(label[ends])]))

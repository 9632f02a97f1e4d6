"""What a cause changes: the lags of steps without something slow, with balanced stages, or with something slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.replay.draft import INPUT, MESSAGE, OWN, ROUND
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import ReplayParams


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that may slow a job: the units that compute, and the messages and rounds that it touches.

    `units` int64[n] are rows of the graph's units; `moves` bool[e] masks edges of messages and rounds. `times`
    float64[e] is how many times as long each takes, as the network shows by itself; None where it does not. `is_whole`
    is false where it touches more than the graph has: exchanges inside operations.
    """

    units: Int64
    moves: Bool
    times: Float64 | None = None
    is_whole: bool = True


def find_cause(graph: ExecutionGraph, computing: Sequence[int], moving: Bool, links: Bool | None = None) -> Cause:
    """Find what a place touches.

    Parameters: `computing`, rows of endpoints whose units compute there; `moving` bool[m] masks the endpoints that move
    their data there; `links` bool[p], pairs that do, in place of all pairs of those endpoints.
    """
    crossed: Bool = np.asarray(moving[graph.pairs].any(axis=0)) if links is None else links
    touched = np.array([bool(moving[rows].any()) for rows in graph.parts], dtype=np.bool_)
    moves = np.zeros(len(graph.kind), dtype=np.bool_)
    for kind, hit in ((MESSAGE, crossed), (ROUND, touched)):
        rows = graph.kind == kind
        moves[rows] = hit[graph.owner[rows]]
    return Cause(np.unique(graph.unit[list(computing)]).astype(np.int64), moves)


def without(graph: ExecutionGraph, cause: Cause, steps: Bool, params: ReplayParams) -> Float64:
    """Return the lags of steps without a cause, float64[e, k].

    Parameters: `steps` bool[k], in which it slows something.

    1. Its units compute as fast as the others of their role.
    2. They, and whatever waits for them unseen, take as long as in the other steps, if these are enough to tell.
    3. Its messages and rounds take no longer than usual, see `usual_moves`.
    """
    lag = graph.lag.copy()
    for unit in cause.units.tolist():
        edges = (graph.owner == unit) & computes(graph)
        factor = np.where(steps, np.maximum(_slowness(graph, unit, cause.units, steps, params), 1.0), 1.0)
        lag[edges] = np.rint(lag[edges] / factor)
    _take_symptoms_away(graph, lag, steps, params)
    if cause.moves.any():
        moves = cause.moves | _waiting_rounds(graph, cause.moves, steps, params)
        usual = usual_moves(graph, replace(cause, moves=moves), steps, params)
        lag[moves] = np.where(steps, np.fmin(lag[moves], usual), lag[moves])
    return lag


def _take_symptoms_away(graph: ExecutionGraph, lag: Float64, steps: Bool, params: ReplayParams) -> None:
    """Let nothing take longer than is usual in the other steps, nor shorter. `lag` is changed in place.

    Some waiting leaves no flow and shows as computing, as of stages inside a server; some shows as moving data, where
    a ring begins with the first that is ready. Messages show plainly, and stay. So does what is seldom longer by far:
    sequences are long by chance, hiccups are.

    1. What is longer by far in a step takes as long as usual: on which operation waiting falls differs by the step.
    2. By how much a run of steps is longer in the median, more than by chance, is the cause's as well.
    """
    healthy, slow = ~steps & graph.known, np.flatnonzero(steps & graph.known)
    if np.count_nonzero(healthy) < params.reference_steps:
        return
    edges = np.flatnonzero(graph.kind != MESSAGE)
    before = lag[edges][:, healthy]
    usual = robust.median(before, axis=1)[:, None]
    far = np.maximum(params.min_score * robust.mad(before, axis=1), params.near_ns)[:, None]
    waits = _waiting(graph, edges, lag[np.ix_(edges, slow)] > usual + far, params)
    edges, usual, far = edges[waits], usual[waits], far[waits]
    for around in np.array_split(slow, max(len(slow) // params.recent_steps, 1)) if len(slow) else ():
        now = lag[np.ix_(edges, around)]
        longer = robust.median(now, axis=1)[:, None] - usual
        longer = np.where(longer > far / np.sqrt(len(around)), longer, 0.0)
        least = np.minimum(graph.lag[np.ix_(edges, around)], usual)
        lag[np.ix_(edges, around)] = np.rint(np.where(now > usual + far, usual, np.maximum(now - longer, least)))


def _waiting(graph: ExecutionGraph, edges: Int64, longer: Bool, params: ReplayParams) -> Bool:
    """Mask the edges of units and communicators that wait unseen, bool[n].

    In most steps some of what they do takes longer by far, `longer` bool[n, k]. What is long by chance is so in few.
    """
    whose = graph.owner[edges] * 2 + (graph.kind[edges] == ROUND)
    each, owner = np.unique(whose, return_inverse=True)
    any_longer = np.zeros((len(each), longer.shape[1]), dtype=np.bool_)
    np.logical_or.at(any_longer, owner, longer)
    return np.asarray((any_longer.mean(axis=1) > params.half)[owner])


def _waiting_rounds(graph: ExecutionGraph, moves: Bool, steps: Bool, params: ReplayParams) -> Bool:
    """Mask the rounds that end with some, bool[e].

    They are of the same communicator, whose hops inside servers leave no record.
    """
    found, known = np.zeros(len(moves), dtype=np.bool_), steps & graph.known
    rounds = graph.kind == ROUND
    if not known.any():
        return found
    ends = graph.at[graph.dag.target][:, known]
    for edge in np.flatnonzero(rounds & moves).tolist():
        same = np.flatnonzero(rounds & ~moves & (graph.place == graph.place[edge]))
        apart = robust.median(np.abs(ends[same] - ends[edge]), axis=1)
        near = min(float(params.round_ns), params.same_size * float(robust.median(graph.lag[edge, known])))
        found[same[apart <= near]] = True
    return found


def straggling(graph: ExecutionGraph, params: ReplayParams) -> Float64:
    """Measure how many times longer than most of its role each unit computes, float64[units, k]."""
    usual = np.array([robust.median(graph.speed[graph.role == one], axis=0) for one in range(len(graph.begins))])
    excess = np.maximum(graph.speed / usual[graph.role], 1.0)
    return _smooth(np.where(graph.known, excess, np.nan), params.speed_steps)


def without_stragglers(graph: ExecutionGraph, excess: Float64, count: int | None) -> Float64:
    """Return the lags of steps without stragglers, or without the slowest few, float64[e, k].

    Parameters: `excess` float64[units, k], see `straggling`; `count` limits how many are taken out, those that exceed
    their role most.
    """
    if count is not None:
        kept = np.argsort(-excess.mean(axis=1), kind="stable")[count:]
        excess = excess.copy()
        excess[kept] = 1.0
    lag, edges = graph.lag.copy(), computes(graph)
    lag[edges] = np.rint(lag[edges] / excess[graph.owner[edges]])
    return lag


def slower(graph: ExecutionGraph, cause: Cause, steps: Bool, factor: float) -> Float64:
    """Return the lags of steps with something slower by a factor, float64[e, k]."""
    edges = cause.moves | (np.isin(graph.owner, cause.units) & computes(graph))
    lag = graph.lag.copy()
    lag[edges] = np.rint(lag[edges] * np.where(steps, factor, 1.0))
    return lag


def evened(graph: ExecutionGraph) -> Float64:
    """Return the lags of steps whose units compute alike, float64[e, k]. Those of a role do."""
    usual = np.array([robust.median(graph.speed[graph.role == one], axis=0) for one in range(len(graph.begins))])
    lag, edges = graph.lag.copy(), computes(graph)
    unit = graph.owner[edges]
    lag[edges] = np.rint(lag[edges] * (usual[graph.role[unit]] / graph.speed[unit]))
    return lag


def balanced(graph: ExecutionGraph) -> Float64:
    """Return the lags of steps with all stages computing for equally long, float64[e, k]."""
    own = computes(graph) & (graph.kind == OWN)
    total = np.zeros((len(graph.role), graph.steps))
    np.add.at(total, graph.owner[own], graph.lag[own])
    usual = np.array([robust.median(total[graph.role == role], axis=0) for role in range(int(graph.role.max()) + 1)])
    share = np.where(usual > 0, usual.mean(axis=0) / np.where(usual > 0, usual, 1.0), 1.0)
    lag, edges = graph.lag.copy(), computes(graph)
    lag[edges] = np.rint(lag[edges] * share[graph.role[graph.owner[edges]]])
    return lag


def computes(graph: ExecutionGraph) -> Bool:
    """Mask the edges on which units compute, bool[e]."""
    return np.asarray((graph.kind == OWN) | (graph.kind == INPUT))


def _slowness(graph: ExecutionGraph, unit: int, slow: Int64, steps: Bool, params: ReplayParams) -> Float64:
    """Return how many times longer than its peers a unit computes, float64[k]. It is 1 without peers."""
    others = np.flatnonzero((graph.role == graph.role[unit]) & ~np.isin(np.arange(len(graph.role)), slow))
    if not len(others):
        return np.ones(graph.steps)
    excess = graph.speed[unit] / robust.median(graph.speed[others], axis=0)
    smooth = _smooth(np.where(steps & graph.known, excess, np.nan), params.speed_steps)
    # Where a cause begins or ends, a step differs from those around it.
    return np.where(np.abs(excess - smooth) > params.small_excess * smooth, excess, smooth)


def _smooth(values: Float64, width: int) -> Float64:
    """Return the median over `width` steps around each, float64[..., k]; 1 where there is none."""
    sides = [(0, 0)] * (values.ndim - 1)
    padded = np.pad(values, [*sides, (width // 2, width // 2)], constant_values=np.nan)
    around = np.lib.stride_tricks.sliding_window_view(padded, width, axis=-1)
    return robust.known_or(robust.median(around, axis=-1), 1.0)


def usual_moves(graph: ExecutionGraph, cause: Cause, steps: Bool, params: ReplayParams) -> Float64:
    """Return how long the messages and rounds that a cause touches usually take, float64[n, k].

    As long as those that do the same elsewhere, or else in the other steps, if these are enough to tell. Or else they
    take less by the times that the network shows them to take as long. NaN where nothing shows it.
    """
    moves, healthy = cause.moves, ~steps & graph.known
    kind, place = graph.kind[moves], graph.place[moves]
    usual = np.full((len(kind), graph.steps), np.nan)
    if cause.times is not None:
        times = cause.times[moves][:, None]
        usual = np.where(times > 1, graph.lag[moves] / times, usual)
    for of in (MESSAGE, ROUND):
        for one in np.unique(place[kind == of]).tolist():
            same = (graph.kind == of) & (graph.place == one)
            mine = (kind == of) & (place == one)
            others = graph.lag[same & ~moves]
            if len(others):
                usual[mine] = robust.median(others, axis=0)[None]
            elif np.count_nonzero(healthy) >= params.reference_steps:
                usual[mine] = robust.median(graph.lag[same & moves][:, healthy], axis=1)[:, None]
    return usual

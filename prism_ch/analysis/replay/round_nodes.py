"""The rounds of collectives as nodes: units are ready, a communicator begins, and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from prism_ch.analysis.replay.barriers import Following
from prism_ch.analysis.replay.chains import Chain, ChainNodes
from prism_ch.analysis.replay.collectives import Rounds
from prism_ch.analysis.replay.draft import INPUT, ORDER, OWN, ROUND, Draft
from prism_ch.analysis.replay.outputs import Input
from prism_ch.analysis.replay.ready import Seen, Speed, find_readiness
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import ComputeTimeParams, ReplayParams


@dataclass(frozen=True, slots=True)
class _Source:
    """Something that a unit waits for: a node, its moments float64[k], how many operations follow, whose it is."""

    node: int
    at: Float64
    pieces: float
    own: bool


@dataclass(slots=True)
class _Sources:
    """What units wait for before a round: nodes, moments and operations that follow, [s, u]; node -1 for none.

    `own` bool[s, u] masks what a unit did itself.
    """

    node: Int64
    at: Float64
    pieces: Float64
    own: Bool


@dataclass(slots=True)
class _Taken:
    """How far a stage's outputs and inputs have been waited for by rounds."""

    output: int = -2
    inputs: list[Input] = field(default_factory=list)


class RoundNodes:
    """Drafts the rounds of a job's collectives.

    `speed` float64[units, k] is filled in for units whose speed only rounds show; `parts` are the communicators so far;
    `last_of_role` has the node and moment of the last rounds of each role. What rounds in `following` wait for is still
    to be drafted, when all are known.
    """

    def __init__(
        self,
        draft: Draft,
        chains: Sequence[Chain],
        nodes: Sequence[ChainNodes],
        arrivals: Mapping[tuple[int, int], Int64],
        speed: Float64,
        params: tuple[ComputeTimeParams, ReplayParams],
    ) -> None:
        """Go on from what stages compute. `chains` have `nodes`, and the nodes of their inputs by link."""
        self.speed, self.parts = speed, tuple[Int64, ...]()
        self.last_of_role: dict[int, list[tuple[int, Float64]]] = {}
        self.following: list[Following] = []
        self._draft, self._chains, self._nodes, self._arrivals = draft, chains, nodes, arrivals
        self._closing = speed.copy()
        for one in chains:
            self._closing[one.units] = one.closing
        self._compute, self._params = params
        self._places = 0

    def draft(self, rounds: Rounds, role: Int64) -> None:
        """Draft all rounds of some communicators; `role` int64[m] is that of each endpoint.

        1. A unit computes until it is ready; or on the result of the round before.
        2. A communicator begins when all units are ready, and its round before has ended.
        3. It takes its time, and ends.
        """
        first = len(self.parts)
        self.parts = (*self.parts, *rounds.parts)
        owners = first + np.arange(len(rounds.parts))
        speed, taken = Speed.of(self.speed[rounds.units]), dict[int, _Taken]()
        ready: tuple[Int64, Float64] | None = None
        done: tuple[Int64, Float64] | None = None
        before: tuple[Float64, Float64] | None = None
        for number in range(rounds.count):
            seen = _seen(rounds, number, before, self._params)
            if done is not None and seen.ended is not None and seen.follows(self._params):
                nodes = self._draft.nodes(seen.at)
                self.following.append(Following(nodes, rounds.units, done[0], seen.ended, number, seen))
                ready = nodes, seen.at
            else:
                sources = self._sources(rounds.units, seen.at, taken, ready)
                pace = speed.factor if number else self._closing[rounds.units]
                longer = goes_on(rounds, self._params) if number == 0 else None
                found = find_readiness(seen, sources.at, sources.pieces, pace, longer)
                nodes = self._draft.nodes(found.at)
                for source, own, lag in zip(sources.node, sources.own, found.lag, strict=True):
                    for kind, there in ((OWN, own & (source >= 0)), (INPUT, ~own & (source >= 0))):
                        self._draft.edges(kind, source[there], nodes[there], lag[there], rounds.units[there])
                speed = speed.measured(found.took, found.known, self._params)
                ready = nodes, found.at
            done = self._round(rounds, number, ready, done, owners)
            before = seen.begun, done[1].max(axis=0)
        self.speed[rounds.units] = speed.factor
        self._places += rounds.count
        if done is not None:
            for rows, node, at in zip(rounds.parts, *done, strict=True):
                for one in np.unique(role[rows]).tolist():
                    self.last_of_role.setdefault(one, []).append((int(node), at))

    def _round(
        self,
        rounds: Rounds,
        number: int,
        ready: tuple[Int64, Float64],
        before: tuple[Int64, Float64] | None,
        owners: Int64,
    ) -> tuple[Int64, Float64]:
        """Draft one round of each communicator. Returns the nodes of their ends, and when those are."""
        ends, begun = rounds.ends[:, :, number], ready[1].max(axis=0)
        begins = np.broadcast_to(begun, ends.shape) if before is None else np.maximum(begun, before[1])
        begin, finish = self._draft.nodes(np.stack([begins, ends], axis=1)).reshape(-1, 2).T
        self._draft.edges(ORDER, ready[0], begin[:, None], 0.0, rounds.units)
        if before is not None:
            self._draft.edges(ORDER, before[0], begin, 0.0)
        self._draft.edges(ROUND, begin, finish, ends - begins, owners, self._places + number)
        return finish, ends

    def _sources(
        self,
        units: Int64,
        at: Float64,
        taken: dict[int, _Taken],
        ready: tuple[Int64, Float64] | None,
    ) -> _Sources:
        """Find what units wait for before a round. The first is what the unit itself did before."""
        columns: list[list[_Source]] = [[] for _ in units]
        if ready is not None:
            columns = [[_Source(int(node), moment, 1.0, own=True)] for node, moment in zip(*ready, strict=True)]
        for nodes in self._nodes:
            mine = np.flatnonzero(np.isin(units, nodes.chain.units))
            if len(mine):
                state = taken.setdefault(nodes.chain.stage, _Taken())
                for row, found in zip(mine.tolist(), self._of_chain(nodes, units[mine], at[mine], state), strict=True):
                    columns[row] += found
        most = max((len(one) for one in columns), default=1)
        shape = (max(most, 1), len(units))
        moments, own = np.full((*shape, self._draft.steps), -np.inf), np.zeros(shape, dtype=np.bool_)
        sources = _Sources(np.full(shape, -1), moments, np.ones(shape), own)
        for row, column in enumerate(columns):
            for place, one in enumerate(column):
                sources.node[place, row], sources.at[place, row] = one.node, one.at
                sources.pieces[place, row], sources.own[place, row] = one.pieces, one.own
        return sources

    def _of_chain(self, nodes: ChainNodes, units: Int64, at: Float64, state: _Taken) -> list[list[_Source]]:
        """List what units of a stage wait for. That is their last output before, and inputs without an output."""
        chain = nodes.chain
        rows = np.searchsorted(chain.units, units)
        late = at + 2 * self._params.near_ns

        def always(moments: Float64) -> bool:
            known = ~np.isnan(moments)  # steps may have other messages, as where a job evaluates
            return bool(known.any() and np.mean((moments <= late)[known]) >= self._compute.causal_share)

        place = max((one for one, moments in enumerate(chain.at) if always(moments[rows])), default=-1)
        rest = [
            one
            for one in chain.rest
            if one not in state.inputs and always(chain.arrived[one.link][rows][:, :, one.number])
        ]
        if place <= state.output and not rest:
            return [[] for _ in units]
        state.output, state.inputs = max(place, state.output), [*state.inputs, *rest]
        found: list[list[_Source]] = []
        for row in rows.tolist():
            node, moment = (
                (int(nodes.own[place][row]), chain.at[place, row]) if place >= 0 else (nodes.begin, chain.begin)
            )
            found.append([_Source(node, moment, float(max(len(rest), 1)), own=True)])
            for left, one in enumerate(rest):
                node = int(self._arrivals[one.link][row, one.number])
                come = chain.arrived[one.link][row, :, one.number]
                found[-1].append(_Source(node, come, float(len(rest) - left), own=False))
        return found


def goes_on(rounds: Rounds, params: ReplayParams) -> Float64:
    """Find how long units compute on from their first round, float64[k].

    Gradients are reduced bucket by bucket while the last backward goes on.
    """
    since = until = begun = _seen(rounds, 0, None, params).begun
    for number in range(1, rounds.count):
        ended = rounds.ends[:, :, number - 1].max(axis=0)
        seen = _seen(rounds, number, (begun, ended), params)
        if seen.follows(params):
            break
        if robust.median(seen.begun - ended) > seen.near_ns:
            until = seen.begun
        begun = seen.begun
    return np.nan_to_num(until - since)


def _seen(rounds: Rounds, number: int, before: tuple[Float64, Float64] | None, params: ReplayParams) -> Seen:
    """Return what a round shows."""
    at, end = rounds.at[:, :, number], rounds.ends[:, :, number].max(axis=0)
    unseen = np.isnan(at)
    begun = np.fmax.reduce(at, axis=0)
    took = float(np.nan_to_num(robust.median(end - begun)))
    begun = np.where(np.isnan(begun), end - took, begun)
    near = params.ready_ns + params.ready_share * max(took, 0.0)
    return Seen(np.where(unseen, begun, at), unseen, before, near, rounds.edges)

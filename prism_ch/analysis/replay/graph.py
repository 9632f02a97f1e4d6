"""The execution graph of a job's steps: what ranks compute, send, receive and agree on, and what waits for what.

Nodes are moments. A unit (ranks that compute as one) sends an output when it has computed it, which it begins when it
is free and its input is there; a message arrives when it has been moved; a collective begins when all of its members
are ready, and ends for all of them. Edges carry how long that takes; idle time is what remains.

Source: "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), section 3, which has
each operation from a profiler; here flows show messages and rounds, and what lies between is found from many steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.compute.lateness import joined_by
from prism_ch.analysis.replay.barriers import draft_following
from prism_ch.analysis.replay.chains import ChainNodes, Moments, read_chain, with_prologue
from prism_ch.analysis.replay.collectives import Rounds, read_rounds
from prism_ch.analysis.replay.draft import MESSAGE, ORDER, Draft
from prism_ch.analysis.replay.lengths import find_lengths
from prism_ch.analysis.replay.longest_path import Dag
from prism_ch.analysis.replay.progress import last_exchanges
from prism_ch.analysis.replay.rest import rest_takes, with_rest
from prism_ch.analysis.replay.round_nodes import RoundNodes, goes_on
from prism_ch.analysis.replay.split_backward import with_weights
from prism_ch.analysis.replay.turns import Turns, fill, read_turns
from prism_ch.analysis.roles.units import by_unit, compute_together
from prism_ch.core import robust
from prism_ch.core.arrays import fold_at, fold_rows
from prism_ch.core.graph import components
from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt8
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.params import ComputeTimeParams, ReplayParams
from prism_ch.model.result import DP, INNER, PP
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class ExecutionGraph:
    """The execution graph of k steps that follow one another; all of them have the same nodes and edges.

    `at` float64[nodes, k]: when each moment was, nanoseconds since its step began; `base_ns` int64[k], when that was;
    `known` bool[k] masks the steps of which all moments are known, others hold zeros. In the order of the edges of
    `dag`: `lag` float64[e, k], `kind` (see draft), `owner` int64[e], the unit, pair or communicator, and `place`, equal
    for messages and rounds that do the same. `begins` and `ends` int64[roles] are the first and last nodes of roles.
    `endpoints` int32[m] with the `unit` of each, `role` int64[units], `speed` float64[units, k], how many times longer
    than usual a unit computes; `pairs` int64[2, p] and `parts` are the owners of messages and of rounds, by rows of
    `endpoints`.
    """

    dag: Dag
    at: Float64
    base_ns: Int64
    known: Bool
    lag: Float64
    kind: UInt8
    owner: Int64
    place: Int64
    begins: Int64
    ends: Int64
    endpoints: Int32
    unit: Int32
    role: Int64
    speed: Float64
    pairs: Int64
    parts: tuple[Int64, ...]

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.base_ns)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where ranks are: `role` int64[m] of each, its `unit` int32[m], `base_ns` int64[k], when each step began."""

    division: Division
    role: Int64
    unit: Int32
    base_ns: Int64

    @property
    def roles(self) -> int:
        return int(self.role.max()) + 1

    def role_of_unit(self) -> Int64:
        found = np.zeros(int(self.unit.max()) + 1, dtype=np.int64)
        found[self.unit] = self.role
        return found


def build_graph(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    groups: GroupSet,
    topology: Topology,
    params: tuple[ComputeTimeParams, ReplayParams],
) -> ExecutionGraph | None:
    """Build the execution graph of steps. The first is left out: where it begins is not known.

    Returns None without two steps.

    1. Read the messages of pipelines in turn, and find the ranks that compute as one.
    2. Read what each stage computes in turn: each output of inputs. A job of one stage shows its last exchange at most.
    3. Read the rounds of collectives, and when units are ready for them.
    4. Join all by edges; a role ends when the last of these has.
    """
    if division.steps < 2:
        return None
    ends = division.job_end_ns()
    base = np.append(2 * ends[0] - ends[1], ends[:-1])
    role = np.unique(groups.stage_of(division.endpoints), return_inverse=True)[1]  # without those inside servers
    where = _Layout(division, role, np.arange(len(role), dtype=np.int32), base)
    turns, pairs = _messages(traffic, kinds, where)
    where = replace(where, unit=_units(traffic, kinds, turns, where, topology, params[1]))
    draft = Draft(division.steps - 1)
    of_role = [division.end_ns[role == one].max(axis=0) for one in range(where.roles)]
    begin = np.array([(end - ends)[:-1] for end in of_role], dtype=np.float64)
    end = np.array([(end - base)[1:] for end in of_role], dtype=np.float64)
    begins = draft.nodes(begin)
    outs, ins = _moments(turns, where.unit) if turns else (_exchanges(traffic, kinds, where), {})
    rounds = tuple(_rounds(traffic, kinds, where, params[1]))
    role_of_unit = where.role_of_unit()
    # Units that send messages to one another are of one replica of the pipeline.
    of_unit = role_of_unit, components(len(role_of_unit), *where.unit[pairs])
    chains, arrivals = _draft_chains(draft, begins, begin, (outs, ins), of_unit, rounds, params)
    _draft_messages(draft, turns, where.unit, chains, arrivals)
    speed = np.ones((len(role_of_unit), draft.steps))
    for one in chains:
        speed[one.chain.units] = one.chain.speed
    closing = RoundNodes(draft, [one.chain for one in chains], chains, arrivals, speed, params)
    for each in rounds:
        closing.draft(each, where.role)
    draft_following(draft, closing.following)
    last = draft.nodes(end)
    _draft_ends(draft, last, end, chains, arrivals, closing)
    return _finished(draft, where, (begins, last), (closing.speed, pairs, closing.parts))


def _messages(traffic: Traffic, kinds: PairKinds, where: _Layout) -> tuple[dict[tuple[int, int], Turns], Int64]:
    """Read the messages of pipelines from stage to stage.

    Returns also their pairs, rows of the division, int64[2, p]. Those within a stage, as where records do not tell two
    apart, show nothing that one waits for.
    """
    if not (kinds.burst == PP).any():
        return {}, np.empty((2, 0), dtype=np.int64)
    pipeline = kinds.of_kind(traffic, PP)
    sides = np.stack([where.division.rows_of(side) for side in (pipeline.pair_src, pipeline.pair_dst)])
    code = where.role[sides[0]] * where.roles + where.role[sides[1]]
    turns = read_turns(pipeline, where.division, where.base_ns, code)
    by_link = {divmod(number, where.roles): one for number, one in turns.items()}
    return {link: one for link, one in by_link.items() if link[0] != link[1]}, sides


def _units(
    traffic: Traffic,
    kinds: PairKinds,
    turns: Mapping[tuple[int, int], Turns],
    where: _Layout,
    topology: Topology,
    params: ReplayParams,
) -> Int32:
    """Join ranks into units, int32[m]."""
    division = where.division
    first = np.full(division.end_ns.shape, np.inf)
    for one in turns.values():
        fold_rows(np.minimum, first, one.src, np.nan_to_num(one.start[:, :, 0], nan=np.inf))
    if not turns:
        closing = kinds.of_kind(traffic, DP)
        for side in (closing.src, closing.dst):
            row = division.rows_of(side)
            step = division.step_of(row, closing.end_ns - 1)
            kept = step < division.steps
            cells = row[kept], step[kept]
            fold_at(np.minimum, first, cells, closing.start_ns[kept] - where.base_ns[step[kept]])
    inner = np.isin(kinds.kind, INNER)
    mates = joined_by(traffic.pair_src[inner], traffic.pair_dst[inner], division)
    near = (params.near_ns if turns else params.ready_ns) + int(traffic.pair_blur_ns.max(initial=0))
    place = topology.server[division.endpoints].astype(np.int64) * where.roles + where.role
    return compute_together(np.where(np.isinf(first), np.nan, first)[:, 1:], place, mates, near)


def _moments(turns: Mapping[tuple[int, int], Turns], unit: Int32) -> tuple[Moments, Moments]:
    """Return when units send and have received their messages, without the first step."""
    outs, ins = {}, {}
    for link, one in turns.items():
        units, sent = by_unit(one.start, one.src, unit, latest=False)
        outs[link] = units, fill(sent)[:, 1:]
        units, received = by_unit(one.end, one.dst, unit, latest=True)
        ins[link] = units, fill(received)[:, 1:]
    return outs, ins


def _exchanges(traffic: Traffic, kinds: PairKinds, where: _Layout) -> Moments:
    """Return when units of one stage last exchange data inside operations, without the first step."""
    inner = traffic.take(np.isin(kinds.burst, INNER))
    found = last_exchanges(inner, where.division, where.base_ns, where.role, where.unit)
    return {link: (units, at[:, 1:]) for link, (units, at) in found.items()}


def _draft_chains(
    draft: Draft,
    begins: Int64,
    begin: Float64,
    moments: tuple[Moments, Moments],
    of_unit: tuple[Int64, Int32],
    rounds: Sequence[Rounds],
    params: tuple[ComputeTimeParams, ReplayParams],
) -> tuple[list[ChainNodes], dict[tuple[int, int], Int64]]:
    """Draft what each stage computes.

    Parameters: `of_unit`, the role and the lane of each. Returns also the nodes of inputs by link, int64[u, n].
    """
    role_of_unit, lane = of_unit
    ready = _first_ready(rounds, role_of_unit, begin)
    arrivals: dict[tuple[int, int], Int64] = {}
    read = [
        read_chain(stage, np.flatnonzero(role_of_unit == stage), moments, begin[stage], params)
        for stage in range(len(begins))
    ]
    takes, lengths = [rest_takes(read, one.stage) for one in read], find_lengths(read, lane)
    read = with_weights(read, _computes_until(rounds, len(role_of_unit), params[1]), params[1]) or [
        with_rest(one, ready[one.stage], took, lengths, params[1]) for one, took in zip(read, takes, strict=True)
    ]
    # Without a round a step ends with the last message, and its receiver computes on that in the next.
    left = [took if np.isnan(ready[one.stage]).all() else np.nan for one, took in zip(read, takes, strict=True)]
    chains = []
    for node, chain in zip(begins.tolist(), with_prologue(read, left), strict=True):
        for link, arrived in chain.arrived.items():
            arrivals[link] = draft.nodes(arrived.swapaxes(1, 2)).reshape(len(arrived), -1)
        chains.append(ChainNodes(chain, draft, node))
        chains[-1].draft(draft, arrivals)
    return chains, arrivals


def _first_ready(rounds: Sequence[Rounds], role_of_unit: Int64, begin: Float64) -> Float64:
    """Find when the first unit of each role takes part in its first round.

    Returns float64[roles, k], NaN where a role has no rounds.
    """
    first = np.full(begin.shape, np.nan)
    for one in rounds:
        for row, at in zip(role_of_unit[one.units].tolist(), one.at[:, :, 0], strict=True):
            first[row] = np.fmin(first[row], at)
    return first


def _computes_until(rounds: Sequence[Rounds], units: int, params: ReplayParams) -> Float64:
    """Find when units are seen to have computed all of a step, float64[units, k].

    They may have before: a round shows when all are ready. NaN for units without rounds.
    """
    steps = rounds[0].at.shape[1] if rounds else 0
    until = np.full((units, steps), np.nan)
    for one in rounds:
        until[one.units] = np.fmin(until[one.units], one.at[:, :, 0] + goes_on(one, params))
    return until


def _draft_messages(
    draft: Draft,
    turns: Mapping[tuple[int, int], Turns],
    unit: Int32,
    chains: list[ChainNodes],
    arrivals: Mapping[tuple[int, int], Int64],
) -> None:
    """Draft the messages between units, a pair of endpoints each.

    Parameters: `arrivals`, their nodes, see `_draft_chains`.

    A message whose record is lost takes as long as usual, and arrives no later than what was made of it.
    """
    place = 0
    for link, one in turns.items():
        here, there = chains[link[0]], chains[link[1]].chain
        turn = place + np.arange(one.count)
        place += one.count
        if link not in there.arrived or not any(output.link == link for output in here.chain.outputs):
            continue
        kept = np.isin(unit[one.src], here.chain.units) & np.isin(unit[one.dst], there.units)
        if not kept.any():  # records of all of them are missing, and the chain counts by others
            continue
        u, v = np.searchsorted(here.chain.units, unit[one.src[kept]]), np.searchsorted(there.units, unit[one.dst[kept]])
        sent = here.chain.sent(link)[u]
        lag = one.end[kept, 1:].swapaxes(1, 2) - sent
        lag = np.where(np.isnan(lag), np.rint(robust.median(lag, axis=2))[:, :, None], lag)
        lag = np.fmin(lag, there.arrived[link][v].swapaxes(1, 2) - sent).reshape(-1, draft.steps)
        draft.edges(MESSAGE, here.sent(link)[u], arrivals[link][v], lag, one.pair[kept, None], turn)


def _rounds(traffic: Traffic, kinds: PairKinds, where: _Layout, params: ReplayParams) -> tuple[Rounds, ...]:
    """Read the rounds of data-parallel groups, without the first step."""
    if not (kinds.burst == DP).any():
        return ()
    closing = kinds.of_kind(traffic, DP)
    read = read_rounds(closing, where.division, where.base_ns, where.role, where.unit, params)
    return tuple(replace(one, at=one.at[:, 1:], ends=one.ends[:, 1:]) for one in read)


def _draft_ends(
    draft: Draft,
    last: Int64,
    end: Float64,
    chains: list[ChainNodes],
    arrivals: Mapping[tuple[int, int], Int64],
    closing: RoundNodes,
) -> None:
    """Draft the ends of roles. A role ends after its last round, or else after its last message.

    It may still compute on that in the next step.
    """
    for stage, node in enumerate(last.tolist()):
        chain = chains[stage].chain
        found = closing.last_of_role.get(stage, [])
        if not found:
            sent = [place for place, output in enumerate(chain.outputs) if output.link[0] != output.link[1]]
            own = chains[stage].own[sent[-1]] if sent else np.array([chains[stage].begin])
            last_sent = chain.at[sent[-1]] if sent else chain.begin
            found = list(zip(own.tolist(), np.broadcast_to(last_sent, (len(own), draft.steps)), strict=True))
            for link, come in chain.arrived.items():
                found += zip(arrivals[link][:, -1].tolist(), come[:, :, -1], strict=True)
        nodes = np.array([one for one, _ in found])
        at = np.array([moment for _, moment in found])
        draft.edges(ORDER, nodes, np.full(len(nodes), node), np.broadcast_to(end[stage] - at.max(axis=0), at.shape))


def _finished(
    draft: Draft,
    where: _Layout,
    ends: tuple[Int64, Int64],
    owners: tuple[Float64, Int64, tuple[Int64, ...]],
) -> ExecutionGraph:
    """Put a drafted graph into order; steps with an unknown moment are not known."""
    at, lag = draft.moments(), draft.lags()
    source, target, kind, owner, place = draft.columns()
    dag = Dag.of(len(at), source, target)
    known: Bool = np.asarray(np.isfinite(at).all(axis=0) & np.isfinite(lag).all(axis=0))
    division = where.division
    return ExecutionGraph(
        dag=dag,
        at=np.where(known, at, 0.0),
        base_ns=where.base_ns[1:],
        known=known,
        lag=np.where(known, dag.sorted(lag), 0.0),
        kind=kind[dag.edge].astype(np.uint8),
        owner=owner[dag.edge],
        place=place[dag.edge],
        begins=ends[0],
        ends=ends[1],
        endpoints=division.endpoints,
        unit=where.unit,
        role=where.role_of_unit(),
        speed=np.where(known, owners[0], 1.0),
        pairs=owners[1],
        parts=owners[2],
    )

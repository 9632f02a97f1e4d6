"""Slow GPUs: ranks that compute longer than others of their role, or than before, and make everybody wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.episodes import Episode, episodes, lost_share, step_seconds
from prism_ch.analysis.diagnose.findings import (
    EVIDENCE_ROWS,
    Measured,
    Place,
    confidence_in,
    identity,
    make_finding,
    severity,
)
from prism_ch.core import robust
from prism_ch.core.graph import components
from prism_ch.core.significance import carried_back, corrected_score, spread_of, trailing_low_median
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.job import Division
from prism_ch.model.memory import UsualComputeTime
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.topology import Topology

#: Seconds in 1,000 GPU-hours: what false alarms are counted by.
_COUNTED_S = 3.6e6

#: Significant digits of remembered compute times: ranks that differ by 5 % stay apart.
_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ranks compared: [m, k] each.

    `usual` seconds are those of the others, `excess` the share of the compute time that is too much, and `score` how
    surprising it is, corrected for all comparisons in 1,000 GPU-hours; 0 where it is not too much. `among` int32[m]
    numbers those that are compared with one another; `least` to `most` of them may be slow together. `reference`
    names what a rank was compared with. `by_others` bool[m]: that is not only the other steps looked at, of which a
    young job may not have enough.
    """

    times: ComputeTime
    among: Int32
    usual: Float64
    excess: Float64
    score: Float64
    least: Int64
    most: Int64
    reference: str
    by_others: Bool


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows of ranks that are slow together, seconds lost a step, share of time lost."""

    rows: Int64
    episode: Episode
    extra_s: float
    lost_share: float

    def cells(self, values: Float64) -> Float64:
        """Return the cells of [m, k] values in which its ranks are slow, [rows, steps]."""
        return values[self.rows][:, list(self.episode.abnormal)]


def find_slow_gpus(
    measured: Sequence[ComputeTime],
    division: Division,
    known: Sequence[Finding],
    place: Place,
    topology: Topology,
    usual_s: Mapping[int, float] = MappingProxyType({}),
) -> tuple[Finding, ...]:
    """Find the ranks of an attempt that compute longer than others, or than before.

    Parameters: `measured`, the ranks' compute times, best measure first; `known`, the findings open so far; `usual_s`,
    the usual compute time of endpoints some time ago, in seconds.

    1. Compare the ranks in each way, until one of them finds somebody.
    2. Join the ranks of one server that are slow together: a tensor group works as one, and its members wait for one
       another inside the server, where no record shows which.
    3. Leave out what loses much less time than another at the same time, which it waits for or hides behind.
    4. Leave out what is slow at one time with another: GPUs seldom fail together, and may share the cause.
    Where as many ranks differ from their peers as do not, or most from what they did before, nothing is found.
    """
    params = place.params.compute
    for compared in compare(measured, division, {**usual_s, **before_slow(known, topology)}, params):
        slow = list(_units(compared, division, topology, params))
        costly = [
            unit
            for unit in slow
            if all(unit.extra_s >= params.half * one.extra_s for one in slow if unit.episode.meets(one.episode))
        ]
        alone = [unit for unit in costly if sum(unit.episode.meets(one.episode) for one in costly) == 1]
        if alone:
            return tuple(_describe(compared, unit, division, place, topology) for unit in alone)
    return ()


def before_slow(known: Sequence[Finding], topology: Topology) -> dict[int, float]:
    """Return the compute times of endpoints before open findings began, in seconds."""
    return {
        topology.index[address]: seconds
        for finding in known
        if finding.status == "open"
        for address, seconds in finding.baseline.compute_s.items()
        if address in topology.index
    }


def _units(compared: Comparison, division: Division, topology: Topology, params: ComputeTimeParams) -> Iterator[_Unit]:
    """List the slow ranks, those of one server together."""
    seconds = compared.times.seconds
    for row in np.flatnonzero((compared.score > 0).any(axis=1)).tolist():
        for episode in episodes((compared.score[row] > 0).tolist(), params.repeats):
            steps = list(episode.abnormal)
            excess = np.nan_to_num(robust.median(compared.excess[:, steps], axis=1))
            alike = (compared.among == compared.among[row]) & (excess >= params.half * excess[row])
            together = ranks_together(compared.times, row, alike, topology)
            may_be_slow = compared.least[row] <= np.count_nonzero(alike) <= compared.most[row]
            if len(steps) < params.slow_steps or together[0] != row or not may_be_slow:
                continue
            if _are_stage(together, compared.times, topology):
                continue
            outside = np.append(seconds[row, : episode.first], seconds[row, episode.last + 1 :])
            if not compared.by_others[row] and np.count_nonzero(~np.isnan(outside)) < params.reference_steps:
                continue
            extra_s = float(np.nanmedian(seconds[row, steps] - compared.usual[row, steps]))
            lost = lost_share(division, episode, extra_s, params.reference_steps)
            if lost >= params.worth_share:
                yield _Unit(together, episode, extra_s, lost)


def _are_stage(rows: Int64, times: ComputeTime, topology: Topology) -> bool:
    """Return whether some ranks are a whole pipeline stage on several servers. Then the stage is slow."""
    stage = np.flatnonzero(times.role == times.role[rows[0]])
    apart = len(np.unique(topology.server[times.endpoints[rows]])) > 1
    return apart and len(rows) == len(stage) < len(times.role)


def ranks_together(times: ComputeTime, row: int, alike: Bool, topology: Topology) -> Int64:
    """List the alike ranks that share a server with one, or wait for it."""
    server = topology.server[times.endpoints]
    rows = np.flatnonzero(alike & (times.role == times.role[row]))
    hubs, first = np.unique(server[rows], return_inverse=True)
    second = times.mates[rows] + np.int32(len(hubs))
    label = components(len(hubs) + int(times.mates.max()) + 1, first.astype(np.int32), second)
    mine: Int64 = rows[label[first] == label[np.searchsorted(hubs, server[row])]]
    return mine


def compare(
    measured: Sequence[ComputeTime], division: Division, expected_s: Mapping[int, float], params: ComputeTimeParams
) -> Iterator[Comparison]:
    """Compare ranks with peers, their own past, and the quicker half of their role.

    Parameters: `measured`, see `measure_compute_time`; `expected_s`, the usual compute time of an endpoint, in seconds,
    as known from before: slowness that lasts, or grows bit by bit, must not become the measure of itself.
    """
    if division.steps <= max(params.slow_steps, 1):
        return
    lasts_s = step_seconds(division)
    step_s = float(np.median(lasts_s))
    for times in measured:
        yield _with_peers(times, np.append(np.nan, lasts_s), params)
        if times.absolute:
            before = np.array([expected_s.get(endpoint, np.nan) for endpoint in times.endpoints.tolist()])
            yield compare_with_past(times, step_s, before, params)
            yield _with_quicker(times, step_s, before, params)


def _with_peers(times: ComputeTime, lasts_s: Float64, params: ComputeTimeParams) -> Comparison:
    """Compare each rank with the median of its role in each step.

    Parameters: `lasts_s` float64[k], how long steps last. No rank computes for longer than others by more than the
    step: there its steps were divided wrongly, and count for nothing.
    """
    step_s = float(robust.median(lasts_s))
    usual = np.full(times.seconds.shape, np.nan)
    for stage in np.unique(times.role).tolist():
        rows = np.flatnonzero(times.role == stage)
        if len(rows) >= params.min_peers:
            usual[rows] = robust.median(times.seconds[rows], axis=0)[None]
    scale = np.where(usual > 0, usual, np.nan) if times.absolute else step_s
    too_long = times.seconds - usual > np.where(np.isnan(lasts_s), step_s, lasts_s)
    longer = np.where(too_long, np.nan, times.seconds - usual) / scale
    excess = _less_data(longer, times)
    score = _score(excess, longer, times.role, step_s, params)
    most = (np.bincount(times.role)[times.role] - 1) // 2  # of as many slow ranks as others nobody knows which are slow
    one, by_others = np.ones(len(most), dtype=np.int64), np.ones(len(most), dtype=bool)
    return Comparison(times, times.role, usual, excess, score, one, most, "the median of its role", by_others)


def _with_quicker(times: ComputeTime, step_s: float, before: Float64, params: ComputeTimeParams) -> Comparison:
    """Compare each rank with the quicker half of its role in each step.

    Of a role on two servers, half of the ranks are slow with one of them. The median does not show which half, and what
    gets slower bit by bit doesn't show against its own steps just before; but a job waits for the slower half, and GPUs
    do not become quicker than they are made: where the quicker half takes less than it usually does, more of its
    compute time is hidden, as behind an exchange that waits for one of them. Of ranks with `hidden` compute time, two
    halves may differ in what shows of it.
    """
    usual = np.full(times.seconds.shape, np.nan)
    quicker = np.zeros(len(times.role), dtype=bool)
    each_s = robust.median(times.seconds, axis=1)
    for stage in np.unique(times.role).tolist():
        rows = np.flatnonzero(times.role == stage)
        if times.hidden is not None and times.hidden[rows].any():
            continue
        if len(rows) > params.min_peers and len(rows) % 2 == 0 and not np.isnan(each_s[rows]).any():
            half = rows[np.argsort(each_s[rows], kind="stable")[: len(rows) // 2]]
            quicker[half] = True
            now_s = robust.median(times.seconds[half], axis=0)
            usually_s = np.fmax(robust.median(now_s), robust.median(before[half]))
            usual[rows] = np.maximum(now_s, np.nan_to_num(usually_s))[None]
    excess = (times.seconds - usual) / np.where(usual > 0, usual, np.nan)
    score = _score(excess, excess, times.role, step_s, params, quicker)
    half_of_role, by_others = np.bincount(times.role)[times.role] // 2, np.ones(len(times.role), dtype=bool)
    reference = "the quicker half of its role"
    return Comparison(times, times.role, usual, excess, score, half_of_role, half_of_role, reference, by_others)


def compare_with_past(times: ComputeTime, step_s: float, before: Float64, params: ComputeTimeParams) -> Comparison:
    """Compare each rank with its better steps, less what changed for most ranks.

    Parameters: `before` float64[m], the compute time that is known from before, in seconds, NaN where none is.
    What three quarters of the ranks have in common has changed for all: those of one server may be half of a job.
    """
    own = np.fmin(times.usual_s(params), before)
    own = np.where(own > 0, own, np.nan)  # nothing is a share of no compute time
    change = times.seconds / own[:, None]
    low, high = (robust.quantile_of_rows(change.T, q) for q in (0.25, 0.75))
    usual = own[:, None] * np.clip(1.0, low, high)[None]
    longer = (times.seconds - usual) / usual
    among = np.zeros(len(times.endpoints), dtype=np.int32)
    # What is compared with its better steps exceeds them by jitter alone. As many as half may be slow all the time: the
    # others show the null model.
    always = np.nan_to_num(robust.median(longer, axis=1))
    jitter = always.clip(0, params.compute_jitter)[:, None]
    excess = _less_data(longer, times)
    score = _score(excess - jitter, longer - jitter, among, step_s, params, always <= np.median(always))
    one, most = np.ones(len(among), dtype=np.int64), np.full(len(among), len(among) // 2)
    return Comparison(times, among, usual, excess, score, one, most, "its own work before", ~np.isnan(before))


def _less_data(excess: Float64, times: ComputeTime) -> Float64:
    """Take away the excess that other stages of the pipeline share, float64[m, k].

    Longer sequences take all stages longer that they pass through, on whatever GPUs.
    """
    if not times.absolute:
        return excess
    less, chains = excess.copy(), defaultdict[tuple[int, ...], list[Int64]](list)
    for rows in (np.flatnonzero(times.chain == chain) for chain in np.unique(times.chain)):
        chains[tuple(times.role[rows].tolist())].append(rows)
    for roles, each in chains.items():  # all chains of one form at once
        for stage in set(roles):
            mine = np.array(roles) == stage
            shared = robust.median(excess[np.stack(each)[:, ~mine]], axis=1)
            less[np.stack(each)[:, mine]] -= np.nan_to_num(shared).clip(min=0)[:, None]
    return less


def _score(
    excess: Float64, longer: Float64, among: Int32, step_s: float, params: ComputeTimeParams, calm: Bool | None = None
) -> Float64:
    """Return how surprising each excess is, float64[m, k], 0 if it is not.

    Parameters: `longer` float64[m, k], how much longer ranks compute for whatever reason, of which the null model is
    made; `calm` bool[m], the ranks that it is made of, by default all.
    """
    best = np.zeros(excess.shape)
    comparisons = max(len(params.widths) * _COUNTED_S / step_s, 1.0)
    for group in np.unique(among).tolist():
        rows = np.flatnonzero(among == group)
        still = longer[rows if calm is None else rows[calm[rows]]]
        single = spread_of(still, params.compute_jitter)
        for width in params.widths:
            smooth = trailing_low_median(excess[rows], width)
            spread = spread_of(trailing_low_median(still, width), single / np.sqrt(width))
            score = corrected_score(np.nan_to_num(smooth / spread, nan=-1.0), comparisons)
            hit = np.where((score >= params.corrected_score) & (smooth >= params.small_excess), score, 0)
            best[rows] = np.maximum(best[rows], carried_back(hit, excess[rows], smooth, width))
    return best


def _describe(compared: Comparison, unit: _Unit, division: Division, place: Place, topology: Topology) -> Finding:
    members = compared.times.endpoints[unit.rows]
    alone, row, steps = len(members) == 1, int(unit.rows[0]), list(unit.episode.abnormal)[:EVIDENCE_ROWS]
    servers = [topology.server_names[server] for server in topology.server[members].tolist()]
    subject = topology.endpoints[members[0]] if alone else servers[0]
    expected_s = float(np.nanmedian(unit.cells(compared.usual)))
    addresses = [topology.endpoints[member] for member in members]
    extent = place.extent(division, unit.episode)
    return make_finding(
        "slow_gpu",
        ("endpoint" if alone else "server", subject),
        identity(place.job_id, "slow_gpu", subject, extent.first_step),
        extent,
        Measured(
            float(np.nanmedian(unit.cells(compared.times.seconds))),
            expected_s,
            float(np.max(unit.cells(compared.score))),
            unit.lost_share,
        ),
        severity(unit.lost_share, place.params),
        _sentence(compared, unit, topology),
        {
            "endpoints": addresses,
            "servers": sorted(set(servers)),
            "gpus": topology.gpu[members].tolist(),
            "pp_stage": int(compared.times.role[row]),
            "measure": "work between messages" if compared.times.absolute else "lateness in collectives",
            "compared_with": compared.reference,
            "ranks_compared": int(np.count_nonzero(compared.among == compared.among[row])),
            "excess": np.round(compared.excess[row, steps], 4).tolist(),
            "observed_s": np.round(compared.times.seconds[row, steps], 6).tolist(),
            "expected_s": np.round(compared.usual[row, steps], 6).tolist(),
            "lost_s": round(unit.extra_s * len(unit.episode.abnormal), 6),
        },
        about=tuple(addresses),
        may_also_be=() if alone else tuple(addresses),
        confidence=confidence_in("endpoint" if alone else "server") / len(set(servers)),
        baseline=Baseline(compute_s=dict.fromkeys(addresses, expected_s)),
    )


def _sentence(compared: Comparison, unit: _Unit, topology: Topology) -> str:
    members, excess = compared.times.endpoints[unit.rows], float(np.nanmedian(unit.cells(compared.excess)))
    longer = f"{excess:.0%} longer a step than {compared.reference}, and the job waits for"
    if len(members) == 1:
        place = f"{topology.server_names[topology.server[members[0]]]}, GPU {topology.gpu[members[0]]}"
        return (
            f"{topology.endpoints[members[0]]} ({place}) works {longer} it: check clocks, temperature and power of "
            "that GPU, and its host."
        )
    gpus: dict[str, list[str]] = {}
    for member in members.tolist():
        gpus.setdefault(topology.server_names[topology.server[member]], []).append(str(topology.gpu[member]))
    listed = " and ".join(f"{', '.join(numbers)} of {server}" for server, numbers in gpus.items())
    return (
        f"GPUs {listed} work {longer} them: they are slow together, so any of them may be to blame; "
        "check their clocks, temperature and power, and the host."
    )


def recall(usual: UsualComputeTime, measured: Sequence[ComputeTime], topology: Topology) -> dict[int, float]:
    """Return remembered compute times, in seconds, if they are measured alike now.

    It is not where outputs were found since to do without inputs that they seemed to wait for, or have more of them.
    """
    times = next((one for one in measured if one.absolute), None)
    if times is None:
        return {}
    changed = {int(way.split(">")[0]) for way, last in times.needs.items() if last != usual.needs.get(way)}
    return {
        endpoint: usual.seconds[topology.endpoints[endpoint]]
        for endpoint, role in zip(times.endpoints.tolist(), times.role.tolist(), strict=True)
        if role not in changed and topology.endpoints[endpoint] in usual.seconds
    }


def remember(
    usual: UsualComputeTime,
    measured: Sequence[ComputeTime],
    slow: Sequence[Finding],
    division: Division,
    topology: Topology,
    params: ComputeTimeParams,
) -> UsualComputeTime:
    """Return the compute times to remember after a window.

    What was remembered stays for a time, and while a GPU is slow.
    A rank without peers that gets slower bit by bit shows only against its compute time of long before.
    Parameters: `usual`, what was remembered before, empty in a young attempt, all of which is found again; `measured`,
    the compute times of now; `slow`, the GPUs found to be slow. Once some ranks are measured otherwise, all are
    remembered anew: what has changed for all since would show in the others alone.
    """
    if (times := next((one for one in measured if one.absolute), None)) is None:
        return usual
    now_ns = int(division.end_ns.max())
    each_s = zip(times.endpoints.tolist(), times.usual_s(params).tolist(), strict=True)
    seconds = {endpoint: float(f"{value:.{_DIGITS}g}") for endpoint, value in each_s if value > 0}
    is_old = now_ns - usual.found_ns > params.remembered_s * 10**9
    if is_old and not any(one.status == "open" for one in slow):
        usual = UsualComputeTime(now_ns)
    before, known = recall(usual, measured, topology), {topology.index.get(one) for one in usual.seconds}
    seconds |= before if before.keys() >= seconds.keys() & known else {}
    by_address = {topology.endpoints[row]: value for row, value in seconds.items()}
    return UsualComputeTime(usual.found_ns, by_address, times.needs)

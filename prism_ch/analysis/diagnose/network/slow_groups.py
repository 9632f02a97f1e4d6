"""Slow groups: data-parallel groups that take longer for their bytes than their peers do (LLMPrism, section V-B)."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.diagnose.episodes import Episode, episodes
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
from prism_ch.core.significance import expected_by_chance
from prism_ch.model.columns import Bool, Float64
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import DP, Group
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic

#: Endpoints that a sentence names before it counts the rest.
_NAMED = 3


def find_slow_groups(
    traffic: Traffic, kinds: PairKinds, division: Division, group_set: GroupSet, place: Place, topology: Topology
) -> tuple[Finding, ...]:
    """Find data-parallel groups slower than their peers over several steps.

    Parameters: the traffic, kinds, division and groups of an attempt; published steps may be among the division's: a
    few new ones alone may be too few to judge.
    Groups are compared by seconds per byte within a step, so that stages of different size compare; with fewer than
    `enough` groups nothing is found, nor where the others are slow as often.
    """
    params = place.params
    groups = tuple(group for group in group_set.groups if group.kind == DP)
    if len(groups) < params.enough or division.steps == 0:
        return ()
    busy_s, payload, _ = measure_groups(traffic, kinds, division, groups)
    # More than a step's bytes are several steps in one record, and the silence between them.
    one_step = (payload > 0) & (payload < params.one_step * robust.median(payload, axis=1)[:, None])
    s_per_byte = np.divide(busy_s, payload, out=np.full(busy_s.shape, np.nan), where=one_step)
    usual = robust.median(s_per_byte, axis=0)[None, :]
    ratio = np.divide(s_per_byte, usual, out=np.full(busy_s.shape, np.nan), where=usual > 0)
    score = robust.robust_z(ratio, axis=0, floor=params.network_jitter)
    slow = (np.nan_to_num(score) > params.min_score) & (np.nan_to_num(ratio) > 1 + params.min_peer_excess)
    return tuple(
        _describe(group, busy_s[row], ratio[row], score[row], episode, division, place, topology)
        for row, group in enumerate(groups)
        for episode in episodes(slow[row].tolist(), params.repeats)
        if len(episode.abnormal) >= params.repeats and _is_rare(slow, row, episode, params)
    )


def _is_rare(slow: Bool, row: int, episode: Episode, params: DiagnoseParams) -> bool:
    """Whether a group is slow in more of some steps than by chance.

    Each group is slow now and then, where one of many ranks is late. Parameters: `slow` bool[groups, steps].
    """
    others = np.count_nonzero(slow) - np.count_nonzero(slow[row])
    share = (others + 1 / 2) / (slow.size - slow.shape[1] + 1)
    span = episode.last - episode.first + 1
    return expected_by_chance(len(episode.abnormal), span, share, slow.size) <= params.max_false_culprits


def measure_groups(
    traffic: Traffic, kinds: PairKinds, division: Division, groups: tuple[Group, ...]
) -> tuple[Float64, Float64, Float64]:
    """Measure the seconds and bytes of each group, and its largest pair's bytes.

    Seconds, bytes and bytes, [groups, steps]. The first two are those of the group's fastest pair. A flow that has
    begun waits for a rank that is late, and takes long though the network is not slow; the flows of the late rank
    itself do not wait. A slow link delays all of a ring.
    """
    collective = kinds.of_kind(traffic, DP)
    number = np.full(int(division.endpoints.max()) + 1, -1, dtype=np.int32)
    for row, group in enumerate(groups):
        number[list(group.members)] = row
    pairs, steps = len(collective.pair_src), division.steps
    firsts = division.rows_of(np.array([group.members[0] for group in groups], dtype=np.int32))
    step = division.step_of(firsts[number[collective.src]], collective.end_ns)
    inside = step < steps
    place = collective.pair[inside].astype(np.int64) * steps + step[inside]
    length_s = (collective.end_ns - collective.start_ns)[inside] / 1e9
    busy_s = np.bincount(place, weights=length_s, minlength=pairs * steps).astype(np.float64)
    moved = np.bincount(place, weights=collective.payload[inside], minlength=pairs * steps).astype(np.float64)
    s_per_byte = np.divide(busy_s, moved, out=np.full(pairs * steps, np.inf), where=moved > 0)
    cell = (number[collective.pair_src][:, None] * steps + np.arange(steps)).ravel()
    order = np.lexsort((s_per_byte, cell))
    fastest = order[np.searchsorted(cell[order], np.arange(len(groups) * steps))]
    shape = (len(groups), steps)
    most = np.zeros(len(groups) * steps)
    np.maximum.at(most, cell, moved)
    return busy_s[fastest].reshape(shape), moved[fastest].reshape(shape), most.reshape(shape)


def _describe(
    group: Group,
    busy_s: Float64,
    ratio: Float64,
    score: Float64,
    episode: Episode,
    division: Division,
    place: Place,
    topology: Topology,
) -> Finding:
    """Describe a group's episode; `ratio` float64[steps] is to the median of all groups."""
    bad = list(episode.abnormal)
    ratio, busy_s = ratio[bad], busy_s[bad]
    times, observed = float(np.median(ratio)), float(np.median(busy_s))
    extent = place.extent(division, episode)
    # In a step that stops for another reason all groups wait, and any is longer than its peers by a part of that.
    lost_s = len(bad) * float(np.median(busy_s - busy_s / ratio))
    slowdown = min(lost_s / max((extent.end_ns - extent.start_ns) / 1e9, observed), 1.0)
    members = [topology.endpoints[member] for member in group.members]
    named = ", ".join(members[:_NAMED]) + (f" and {len(members) - _NAMED} more" if len(members) > _NAMED else "")
    subject = str(group.group_id)
    return make_finding(
        "slow_group",
        ("group", subject),
        identity(place.job_id, "slow_group", subject, extent.first_step),
        extent,
        Measured(observed, observed / times, float(np.median(score[bad])), slowdown),
        severity(slowdown, place.params),
        f"Data-parallel group {subject} ({named}) needs {times:.2g} times as long for its bytes as its peers: "
        "check the links between these endpoints.",
        {
            "members": members,
            "ratio_to_peers": np.round(ratio, 4).tolist()[:EVIDENCE_ROWS],
            "lost_s": round(lost_s, 6),
        },
        about=tuple(members),
        confidence=confidence_in("group"),
    )

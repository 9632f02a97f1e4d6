"""Slow groups: data-parallel groups that take longer for their bytes than their peers do (LLMPrism, section V-B)."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from prism_ch.core import robust
from prism_ch.core.arrays import segment_search
from prism_ch.model.columns import Float64, Int64
from prism_ch.model.division import Division
from prism_ch.model.groupset import GroupSet, PairKinds
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import DP, Diagnosis, Group
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.stages.diagnose.episode import Episode, episodes, identity, severity

#: Endpoints that a sentence names before it counts the rest.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Peers:
    """Data-parallel groups compared with one another: [groups, steps] each, but for `job_end_ns` [steps].

    `ratio` is a group's seconds per byte over the median of all in the step, `score` how far that stands out.
    """

    groups: tuple[Group, ...]
    first_step: int
    job_end_ns: Int64
    busy_s: Float64
    ratio: Float64
    score: Float64


def find_slow_groups(
    job_id: str,
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    group_set: GroupSet,
    first_step: int,
    topology: Topology,
    params: DiagnoseParams,
) -> tuple[Diagnosis, ...]:
    """Find data-parallel groups slower than their peers over several steps.

    Parameters: as the division and groups of the job were found; `first_step`, the number of the division's first step
    (steps said before may be among them: a few new ones alone may be too few to tell).
    Groups are compared by seconds per byte within a step, so that stages of different size compare; with fewer than
    `min_peers` groups there is nothing to compare with, and nothing is found.
    """
    groups = tuple(group for group in group_set.groups if group.kind == DP)
    if len(groups) < params.min_peers or division.steps == 0:
        return ()
    busy_s, payload, _ = measure_groups(traffic, kinds, division, groups)
    # More than a step's bytes are several steps in one record, and the silence between them.
    one_step = (payload > 0) & (payload < params.max_step_payload * robust.median(payload, axis=1)[:, None])
    pace = np.divide(busy_s, payload, out=np.full(busy_s.shape, np.nan), where=one_step)
    usual = robust.median(pace, axis=0)[None, :]
    ratio = np.divide(pace, usual, out=np.full(pace.shape, np.nan), where=usual > 0)
    score = robust.robust_z(ratio, axis=0, floor=params.peer_jitter_floor)
    slow = (np.nan_to_num(score) > params.min_score) & (np.nan_to_num(ratio) > 1 + params.min_peer_excess)
    peers = _Peers(groups, first_step, division.job_end_ns(), busy_s, ratio, score)
    return tuple(
        _describe(job_id, peers, row, episode, topology, params)
        for row in range(len(groups))
        for episode in episodes(slow[row].tolist(), params.close_after_steps)
        if len(episode.abnormal) >= params.min_peer_steps
    )


def measure_groups(
    traffic: Traffic, kinds: PairKinds, division: Division, groups: tuple[Group, ...]
) -> tuple[Float64, Float64, Float64]:
    """Measure how long each group moved data in each step, how much, and how much at the most between two endpoints.

    Seconds, bytes and bytes, [groups, steps]. The first two are those of the group's fastest pair. A flow that has
    begun waits for a rank that is late, and takes long though the network is not slow; the flows of the late rank
    itself do not wait. A slow link delays all of a ring.
    """
    collective = kinds.of_kind(traffic, DP)
    number = np.full(int(division.endpoints.max()) + 1, -1, dtype=np.int32)
    for row, group in enumerate(groups):
        number[list(group.members)] = row
    pairs, steps = len(collective.pair_src), division.steps
    ends = division.end_ns[np.searchsorted(division.endpoints, [group.members[0] for group in groups])]
    first = number[collective.src].astype(np.int64) * steps
    step = segment_search(ends.ravel(), first, first + steps, collective.end_ns - 1)  # ends before the burst's own
    inside = step < steps
    place = collective.pair[inside].astype(np.int64) * steps + step[inside]
    length_s = (collective.end_ns - collective.start_ns)[inside] / 1e9
    busy_s = np.bincount(place, weights=length_s, minlength=pairs * steps).astype(np.float64)
    moved = np.bincount(place, weights=collective.payload[inside], minlength=pairs * steps).astype(np.float64)
    pace = np.divide(busy_s, moved, out=np.full(pairs * steps, np.inf), where=moved > 0)
    cell = (number[collective.pair_src][:, None] * steps + np.arange(steps)).ravel()
    order = np.lexsort((pace, cell))
    fastest = order[np.searchsorted(cell[order], np.arange(len(groups) * steps))]
    shape = (len(groups), steps)
    most = np.zeros(len(groups) * steps)
    np.maximum.at(most, cell, moved)
    return busy_s[fastest].reshape(shape), moved[fastest].reshape(shape), most.reshape(shape)


def _describe(
    job_id: str, peers: _Peers, row: int, episode: Episode, topology: Topology, params: DiagnoseParams
) -> Diagnosis:
    """Put one group's episode into words and numbers."""
    group, bad = peers.groups[row], list(episode.abnormal)
    ratio, busy_s = peers.ratio[row, bad], peers.busy_s[row, bad]
    times, observed = float(np.median(ratio)), float(np.median(busy_s))
    start_ns, end_ns = int(peers.job_end_ns[max(episode.first - 1, 0)]), int(peers.job_end_ns[episode.last])
    # In a step that stops for another reason all groups wait, and any is longer than its peers by a part of that.
    lost_s = len(bad) * float(np.median(busy_s - busy_s / ratio))
    slowdown = min(lost_s / max((end_ns - start_ns) / 1e9, observed), 1.0)
    first, last = peers.first_step + episode.first, peers.first_step + episode.last
    members = [topology.endpoints[member] for member in group.members]
    named = ", ".join(members[:_NAMED]) + (f" and {len(members) - _NAMED} more" if len(members) > _NAMED else "")
    subject = str(group.group_id)
    return Diagnosis(
        diagnosis_id=identity(job_id, "slow_group", subject, first),
        kind="slow_group",
        subject_type="group",
        subject=subject,
        first_step=first,
        last_step=last,
        start_ns=start_ns,
        end_ns=end_ns,
        status="closed" if episode.closed else "open",
        severity=severity(slowdown, params),
        observed=observed,
        expected=observed / times,
        score=float(np.median(peers.score[row, bad])),
        slowdown=slowdown,
        summary=(
            f"Data-parallel group {subject} ({named}) needs {times:.2g} times as long for its bytes as its peers: "
            "check the links between these endpoints."
        ),
        evidence=json.dumps(
            {
                "members": members,
                "ratio_to_peers": np.round(ratio, 4).tolist()[: params.evidence_rows],
                "lost_s": round(lost_s, 6),
            }
        ),
    )

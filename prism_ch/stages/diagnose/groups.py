"""Slow groups: data-parallel groups that take longer for their bytes than their peers in the same steps (LLMPrism, section V-B)."""

from __future__ import annotations

import json

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.model.columns import Float64
from prism_ch.model.division import Division
from prism_ch.model.groupset import GroupSet, PairKinds
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import DP, Diagnosis, Group
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.stages.diagnose.episode import Episode, episodes, identity, severity


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

    Parameters: as the division and groups of the job were found; `first_step`, the number of the division's first step.
    Groups are compared by seconds per byte within a step, so that stages of different size compare; with fewer than
    `min_peers` groups there is nothing to compare with, and nothing is found.
    """
    groups = [group for group in group_set.groups if group.kind == DP]
    if len(groups) < params.min_peers or division.steps == 0:
        return ()
    busy_s, payload = _measure(traffic, kinds, division, groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        pace = np.where(payload > 0, busy_s / payload, np.nan)
        ratio = pace / robust.median(pace, axis=0)[None, :]
    score = robust.robust_z(ratio, axis=0, floor=params.peer_jitter_floor)
    slow = (np.nan_to_num(score) > params.min_score) & (np.nan_to_num(ratio) > 1 + params.min_peer_excess)
    job_end = division.job_end_ns()
    found = []
    for row, group in enumerate(groups):
        for episode in episodes(slow[row].tolist(), params.close_after_steps):
            if len(episode.abnormal) >= params.min_peer_steps:
                found.append(
                    _describe(job_id, group, episode, ratio[row], busy_s[row], score[row], job_end, first_step, topology, params)
                )
    return tuple(found)


def _measure(traffic: Traffic, kinds: PairKinds, division: Division, groups: list[Group]) -> tuple[Float64, Float64]:
    """Measure for how long each group moved data in each step, and how much: seconds and bytes, float64[groups, steps]."""
    collective = kinds.of_kind(traffic, DP)
    number = np.full(int(division.endpoints.max()) + 1, -1, dtype=np.int32)
    for row, group in enumerate(groups):
        number[list(group.members)] = row
    line = number[collective.src]
    joined = intervals.merge(line, collective.start_ns, collective.end_ns)
    payload = np.bincount(joined.owner, weights=collective.payload)
    place = np.searchsorted(division.endpoints, [group.members[0] for group in groups])
    ends = division.end_ns[place]
    step = np.array([np.searchsorted(ends[g], end) for g, end in zip(joined.group, joined.end, strict=True)], dtype=np.int64)
    shape = (len(groups), division.steps)
    busy_s, moved = np.zeros(shape), np.zeros(shape)
    inside = step < division.steps
    where = (joined.group[inside], step[inside])
    np.add.at(busy_s, where, (joined.end - joined.start)[inside] / 1e9)
    np.add.at(moved, where, payload[inside])
    return busy_s, moved


def _describe(
    job_id: str,
    group: Group,
    episode: Episode,
    ratio: Float64,
    busy_s: Float64,
    score: Float64,
    job_end: np.ndarray,
    first_step: int,
    topology: Topology,
    params: DiagnoseParams,
) -> Diagnosis:
    """Put one group's episode into words and numbers."""
    bad = list(episode.abnormal)
    times = float(np.median(ratio[bad]))
    observed = float(np.median(busy_s[bad]))
    expected = observed / times
    begin_row = max(episode.first - 1, 0)
    span_s = max(float(job_end[episode.last] - job_end[begin_row]) / 1e9, observed)
    lost_s = float((busy_s[bad] - busy_s[bad] / ratio[bad]).sum())
    slowdown = min(lost_s / span_s, 1.0)
    first, last = first_step + episode.first, first_step + episode.last
    members = [topology.endpoints[member] for member in group.members]
    named = ", ".join(members[:3]) + (f" and {len(members) - 3} more" if len(members) > 3 else "")  # noqa: PLR2004
    subject = str(group.group_id)
    return Diagnosis(
        diagnosis_id=identity(job_id, "slow_group", subject, first),
        kind="slow_group",
        subject_type="group",
        subject=subject,
        first_step=first,
        last_step=last,
        start_ns=int(job_end[begin_row]),
        end_ns=int(job_end[episode.last]),
        status="closed" if episode.closed else "open",
        severity=severity(slowdown, params),
        observed=observed,
        expected=expected,
        score=float(np.median(score[bad])),
        slowdown=slowdown,
        summary=(
            f"Data-parallel group {subject} ({named}) needed {times:.2g} times as long for its bytes as its peers in steps "
            f"{first} to {last}: check the links between these endpoints."
        ),
        evidence=json.dumps({"members": members, "ratio_to_peers": np.round(ratio[bad], 4).tolist()[: params.evidence_rows]}),
    )

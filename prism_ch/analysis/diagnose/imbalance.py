"""Imbalance: groups that move more bytes, or stages that work longer, in every step, because the model is so divided.

That is a job's shape and no fault: nobody has to be called, but who divides the model may want to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.cost import step_seconds
from prism_ch.analysis.diagnose.findings import EVIDENCE_ROWS, Measured, Place
from prism_ch.analysis.diagnose.network.slow_groups import measure_groups
from prism_ch.analysis.diagnose.uneven_stages import find_uneven_stages, shape_finding
from prism_ch.core import robust
from prism_ch.model.columns import Float64, Int64
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import DP, Group
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class _Compared:
    """Groups compared: `ratio` and `busy_s` float64[groups, steps], their bytes over the median, and their time."""

    groups: tuple[Group, ...]
    ratio: Float64
    busy_s: Float64

    @property
    def extra_s(self) -> Float64:
        """Seconds a step that each group's additional bytes take, float64[groups]."""
        return robust.median(self.busy_s * (1 - 1 / self.ratio), axis=1)

    def take(self, rows: Int64) -> _Compared:
        """Return some of the groups."""
        return _Compared(tuple(self.groups[row] for row in rows.tolist()), self.ratio[rows], self.busy_s[rows])


def find_imbalance(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    group_set: GroupSet,
    measured: Sequence[ComputeTime],
    known: Sequence[Finding],
    place: Place,
) -> tuple[Finding, ...]:
    """Find whether some stages of one life of a job always work longer, or groups always move more bytes, than most.

    Parameters: as the division and groups of the life were found; `measured`, the work of its ranks; `known`, the
    findings open so far. A job has one shape: of both, the bytes are said.
    It must have been so from the life's first step on: what changes later is no shape. One that is known stays open
    where there are too few steps to tell.
    """
    params = place.params
    going = next((one for one in known if one.kind == "imbalance" and one.status == "open"), None)
    if division.steps == 0 or not (place.begins or going):
        return ()
    last_step, end_ns = place.first_step + division.steps - 1, int(division.job_end_ns()[-1])
    if division.steps < params.judged_steps:
        return () if going is None else (replace(going, last_step=last_step, end_ns=end_ns),)
    groups = _of_usual_size(group_set)
    stages = find_uneven_stages(measured, division, going, place)
    if len(groups) < params.enough:
        return stages
    heavy = _heavy(_compare(traffic, kinds, division, groups), going, params)
    step_s = float(np.median(step_seconds(division)))
    if not heavy.groups or heavy.extra_s.max() < params.worth_share * step_s:
        return stages
    return (_describe(heavy, group_set, division, step_s, place),)


def _of_usual_size(group_set: GroupSet) -> tuple[Group, ...]:
    """List the data-parallel groups of the size that most have: in others a member moves another share of its bytes."""
    groups = [group for group in group_set.groups if group.kind == DP]
    usual = int(np.bincount([len(group.members) for group in groups]).argmax()) if groups else 0
    return tuple(group for group in groups if len(group.members) == usual)


def _compare(traffic: Traffic, kinds: PairKinds, division: Division, groups: tuple[Group, ...]) -> _Compared:
    """Compare the groups' bytes in each step with the median, and measure their time: [groups, steps] each.

    NaN in steps in which a group moved nothing. The edges of a tree carry unlike bytes: a group moves more only where
    both its fastest pair and its largest do.
    """
    busy_s, *payloads = measure_groups(traffic, kinds, division, groups)
    moved = np.where(np.array(payloads) > 0, payloads, np.nan)
    ratio: Float64 = np.min(moved / np.array([robust.median(one, axis=0) for one in moved])[:, None], axis=0)
    return _Compared(groups, ratio, busy_s)


def _heavy(compared: _Compared, going: Finding | None, params: DiagnoseParams) -> _Compared:
    """Return the groups that move more than the others in nearly every step.

    One that is known may come a little nearer to the others without an end to it.
    """
    least = 1 + params.network_excess * (1 if going is None else params.half)
    always = (compared.ratio >= least).mean(axis=1) >= params.nearly_all
    return compared.take(np.flatnonzero(always))


def _describe(heavy: _Compared, group_set: GroupSet, division: Division, step_s: float, place: Place) -> Finding:
    """Put it into words and numbers: those of the group whose additional bytes take longest."""
    worst = int(np.argmax(heavy.extra_s))
    ratio, extra_s = heavy.ratio[worst], float(heavy.extra_s[worst])
    times, observed = float(robust.median(ratio)), float(robust.median(heavy.busy_s[worst]))
    spread = max(float(robust.mad(ratio)), place.params.network_jitter)
    numbers = [group.group_id for group in heavy.groups]
    members = [list(group.members) for group in heavy.groups]
    stages = np.unique(group_set.stage_of(np.concatenate(members))).tolist()
    return shape_finding(
        place,
        division,
        Measured(observed, observed - extra_s, (times - 1) / spread, min(extra_s / step_s, 1.0)),
        _sentence(numbers, stages if group_set.pp_stage.any() else [], times, extra_s),
        {
            "groups": numbers[:EVIDENCE_ROWS],
            "pp_stages": stages,
            "bytes_to_median": np.round(ratio, 4).tolist()[:EVIDENCE_ROWS],
            "extra_s": round(extra_s, 6),
        },
    )


def _sentence(groups: Sequence[int], stages: Sequence[int], times: float, extra_s: float) -> str:
    """Say which groups, in which stages of a pipeline, move how much more, what it costs at most, and what to do."""
    who = f"Data-parallel group {groups[0]} moves" if len(groups) == 1 else f"{len(groups)} data-parallel groups move"
    where = f" (pipeline {'stage' if len(stages) == 1 else 'stages'} {', '.join(map(str, stages))})" if stages else ""
    return (
        f"{who} up to {times:.2g} times the bytes of the others in every step{where}, and the job waits up "
        f"to {extra_s:.2g} s a step for that: the model could be divided more evenly."
    )

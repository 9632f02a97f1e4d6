"""Imbalance: groups that always move more bytes, or stages that always compute longer, as the model is divided.

That is a job's shape and no fault: nobody has to be called, but who divides the model may want to know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.episodes import step_seconds
from prism_ch.analysis.diagnose.findings import EVIDENCE_ROWS, Extent, Measured, Place, identity, make_finding
from prism_ch.analysis.diagnose.network.slow_groups import measure_groups
from prism_ch.core import robust
from prism_ch.model.columns import Float64
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import DP, Group
from prism_ch.model.traffic import Traffic

#: Stages needed: a first one, which shows less of its compute time than the others, one to compare with, a last one.
_LEAST_STAGES = 3


@dataclass(frozen=True, slots=True)
class _Load:
    """Groups or stages compared, float64[n, steps] each: their `seconds`, and `ratio`, their load over the usual one.

    `extra` are the seconds that they take beyond the usual load; all are NaN where nothing is known of a step.
    """

    ratio: Float64
    seconds: Float64
    extra: Float64

    @property
    def extra_s(self) -> Float64:
        """Median seconds a step that each takes beyond the usual load, float64[n]."""
        return robust.median(self.extra, axis=1)

    def always_more(self, going: Finding | None, params: DiagnoseParams, since: int = 0) -> list[int]:
        """List the rows with more load than usual in nearly every step from `since` on.

        One that is known, `going`, may come a little nearer to the others without an end to it.
        """
        least = 1 + params.network_excess * (1 if going is None else params.half)
        return np.flatnonzero((self.ratio[:, since:] >= least).mean(axis=1) >= params.nearly_all).tolist()

    def measured(self, row: int, step_s: float, params: DiagnoseParams) -> Measured:
        """Return the figures of a finding on one row; `step_s` is the median step."""
        ratio, extra_s, seconds = self.ratio[row], float(self.extra_s[row]), float(robust.median(self.seconds[row]))
        spread = max(float(robust.mad(ratio[~np.isnan(ratio)])), params.network_jitter)
        score = (float(robust.median(ratio)) - 1) / spread
        return Measured(seconds, seconds - extra_s, score, min(extra_s / step_s, 1.0))


def find_imbalance(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    group_set: GroupSet,
    measured: Sequence[ComputeTime],
    known: Sequence[Finding],
    place: Place,
) -> tuple[Finding, ...]:
    """Find stages that always compute longer, or groups that always move more bytes.

    Parameters: `measured`, the compute times of its ranks, see `measure_compute_time`; `known`, the findings open
    so far.
    A job has one shape: of both, the bytes are reported. It must have been so from the attempt's first step on. A known
    imbalance stays open if there are too few steps to judge.
    """
    params = place.params
    of_shape = [one for one in known if one.kind == "imbalance" and one.subject_type == "job"]
    going = next((one for one in of_shape if one.status == "open"), None)
    if division.steps == 0 or not (place.begins or going):
        return ()
    last_step, end_ns = place.first_step + division.steps - 1, int(division.job_end_ns()[-1])
    if division.steps < params.judged_steps:
        return () if going is None else (replace(going, last_step=last_step, end_ns=end_ns),)
    groups = _of_usual_size(group_set)
    if len(groups) >= params.enough:
        load = _load_of_groups(traffic, kinds, division, groups)
        rows = load.always_more(going, params)
        step_s = float(np.median(step_seconds(division)))
        if rows and load.extra_s[rows].max() >= params.worth_share * step_s:
            return (_describe_groups(load, rows, groups, group_set, division, place),)
    return find_uneven_stages(measured, division, going, place)


def _of_usual_size(group_set: GroupSet) -> tuple[Group, ...]:
    """List the data-parallel groups of the usual size. In others, members move other shares."""
    groups = [group for group in group_set.groups if group.kind == DP]
    usual = int(np.bincount([len(group.members) for group in groups]).argmax()) if groups else 0
    return tuple(group for group in groups if len(group.members) == usual)


def _load_of_groups(traffic: Traffic, kinds: PairKinds, division: Division, groups: tuple[Group, ...]) -> _Load:
    """Compare the bytes of groups in each step with the median.

    The edges of a tree carry unlike bytes: a group moves more only where both its fastest pair and its largest do.
    """
    busy_s, *payloads = measure_groups(traffic, kinds, division, groups)
    moved = np.where(np.array(payloads) > 0, payloads, np.nan)
    ratio: Float64 = np.min(moved / np.array([robust.median(one, axis=0) for one in moved])[:, None], axis=0)
    return _Load(ratio, busy_s, busy_s * (1 - 1 / ratio))


def _describe_groups(
    load: _Load, rows: list[int], groups: Sequence[Group], group_set: GroupSet, division: Division, place: Place
) -> Finding:
    worst = rows[int(np.argmax(load.extra_s[rows]))]
    times, extra_s = float(robust.median(load.ratio[worst])), float(load.extra_s[worst])
    numbers = [groups[row].group_id for row in rows]
    stages = np.unique(group_set.stage_of(np.concatenate([list(groups[row].members) for row in rows]))).tolist()
    who = f"Data-parallel group {numbers[0]} moves" if len(rows) == 1 else f"{len(rows)} data-parallel groups move"
    where = f" (pipeline {'stage' if len(stages) == 1 else 'stages'} {', '.join(map(str, stages))})"
    summary = (
        f"{who} up to {times:.2g} times the bytes of the others in every step"
        f"{where if group_set.pp_stage.any() and stages else ''}, and the job waits up "
        f"to {extra_s:.2g} s a step for that: the model could be divided more evenly."
    )
    evidence = {
        "groups": numbers[:EVIDENCE_ROWS],
        "pp_stages": stages,
        "bytes_to_median": np.round(load.ratio[worst], 4).tolist()[:EVIDENCE_ROWS],
        "extra_s": round(extra_s, 6),
    }
    return _shape_finding(place, division, load, worst, summary, evidence)


def find_uneven_stages(
    measured: Sequence[ComputeTime], division: Division, going: Finding | None, place: Place
) -> tuple[Finding, ...]:
    """Find whether some stages of an attempt's pipeline always compute longer than most.

    Parameters: `measured`, see `measure_compute_time`; `going`, the open finding of this kind.
    The caller makes sure that the division begins where the attempt does. The first stage can't be compared, since no
    message shows when it is given its input; those after it but for the last are the measure.
    """
    params = place.params
    times = next((each for each in measured if each.absolute), None)
    if times is None or times.turn_s is None or division.steps < params.judged_steps:
        return ()
    stages = np.unique(times.role)
    if len(stages) < _LEAST_STAGES:
        return ()
    stages = stages[1:]
    seconds = np.array([robust.median(times.turn_s[times.role == stage], axis=0) for stage in stages.tolist()])
    usual = robust.median(seconds[:-1], axis=0)
    ratio = np.divide(seconds, usual, out=np.full(seconds.shape, np.nan), where=usual > 0)
    load = _Load(ratio, seconds, np.where(usual > 0, seconds - usual, np.nan))
    step_s = float(np.median(step_seconds(division)))
    always = load.always_more(going, params, since=1)  # no turn is known of the first step
    rows = [row for row in always if load.extra_s[row] >= params.worth_share * step_s]
    return (_describe_stages(load, rows, stages.tolist(), division, place),) if rows else ()


def _describe_stages(load: _Load, rows: list[int], stages: list[int], division: Division, place: Place) -> Finding:
    worst = max(rows, key=lambda row: float(load.extra_s[row]))
    times, extra_s = float(robust.median(load.ratio[worst])), float(load.extra_s[worst])
    who = f"Pipeline stage {stages[rows[0]]} works" if len(rows) == 1 else f"{len(rows)} pipeline stages work"
    summary = (
        f"{who} up to {times:.2g} times as long as the others in every step, and the job waits up to {extra_s:.2g} "
        "s a step for that: the model could be divided more evenly."
    )
    evidence = {
        "pp_stages": [stages[row] for row in rows],
        "work_s": dict(zip(map(str, stages), robust.median(load.seconds, axis=1).tolist(), strict=True)),
        "work_to_median": np.round(np.nan_to_num(load.ratio[worst]), 4).tolist()[:EVIDENCE_ROWS],
        "extra_s": round(extra_s, 6),
    }
    return _shape_finding(place, division, load, worst, summary, evidence)


def _shape_finding(
    place: Place, division: Division, load: _Load, worst: int, summary: str, evidence: Mapping[str, Any]
) -> Finding:
    end_ns = division.job_end_ns()
    extent = Extent(place.first_step, place.first_step + division.steps - 1, int(end_ns[0]), int(end_ns[-1]))
    name = identity(place.job_id, "imbalance", place.job_id, place.first_step)
    measured = load.measured(worst, float(np.median(step_seconds(division))), place.params)
    return make_finding("imbalance", ("job", place.job_id), name, extent, measured, "info", summary, evidence)

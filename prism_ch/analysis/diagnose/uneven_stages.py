"""Uneven stages: those of a pipeline that work longer than the others in every step, because the model is so divided.

As `imbalance`, of which it is a kind: a job's shape, and no fault of a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.cost import step_seconds
from prism_ch.analysis.diagnose.findings import EVIDENCE_ROWS, Extent, Measured, Place, identity, make_finding
from prism_ch.core import robust
from prism_ch.model.columns import Float64, Int32
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division

#: A first stage, which shows less of its work than the others, one to compare with, and a last one.
_LEAST_STAGES = 3


@dataclass(frozen=True, slots=True)
class _Stages:
    """Stages compared, float64[stages, steps]: the `seconds` of work, their `ratio` to those between the ends.

    `extra`: what they work more than those, in seconds. NaN in steps in which either is not known.
    """

    stages: Int32
    ratio: Float64
    seconds: Float64
    extra: Float64

    @property
    def extra_s(self) -> Float64:
        """Seconds a step that each stage works more than the others, float64[stages]."""
        return robust.median(self.extra, axis=1)


def find_uneven_stages(
    measured: Sequence[ComputeTime], division: Division, going: Finding | None, place: Place
) -> tuple[Finding, ...]:
    """Find whether some stages of a life's pipeline always work longer than most.

    Parameters: `measured`, see `measure_work`; `going`, the finding of this kind that is open. It must have been so
    from the life's first step on, which whoever calls has to see to. The first stage can't be compared, since no
    message tells when it is given work; those after it but for the last are the measure.
    """
    params = place.params
    work = next((each for each in measured if each.absolute), None)
    if work is None or division.steps < params.judged_steps:
        return ()
    compared = _compare(work)
    if compared is None:
        return ()
    least = 1 + params.network_excess * (1 if going is None else params.half)
    always = (compared.ratio[:, 1:] >= least).mean(axis=1) >= params.nearly_all
    step_s = float(np.median(step_seconds(division)))
    heavy = np.flatnonzero(always & (compared.extra_s >= params.worth_share * step_s))
    return (_describe(compared, heavy.tolist(), division, step_s, place),) if len(heavy) else ()


def _compare(work: ComputeTime) -> _Stages | None:
    """Compare the stages in each step; None where there are too few."""
    stages = np.unique(work.role)
    if len(stages) < _LEAST_STAGES or work.turn_s is None:
        return None
    stages = stages[1:]
    seconds = np.array([robust.median(work.turn_s[work.role == stage], axis=0) for stage in stages.tolist()])
    usual = robust.median(seconds[:-1], axis=0)
    ratio = np.divide(seconds, usual, out=np.full(seconds.shape, np.nan), where=usual > 0)
    return _Stages(stages, ratio, seconds, np.where(usual > 0, seconds - usual, np.nan))


def _describe(compared: _Stages, heavy: Sequence[int], division: Division, step_s: float, place: Place) -> Finding:
    """Put it into words and numbers: those of the stage that works longest."""
    worst = max(heavy, key=lambda row: float(compared.extra_s[row]))
    ratio, extra_s = compared.ratio[worst], float(compared.extra_s[worst])
    times, observed = float(robust.median(ratio)), float(robust.median(compared.seconds[worst]))
    spread = max(float(robust.mad(ratio[~np.isnan(ratio)])), place.params.network_jitter)
    stages = compared.stages[list(heavy)].tolist()
    who = f"Pipeline stage {stages[0]} works" if len(stages) == 1 else f"{len(stages)} pipeline stages work"
    work_s = zip(map(str, compared.stages.tolist()), robust.median(compared.seconds, axis=1).tolist(), strict=True)
    return shape_finding(
        place,
        division,
        Measured(observed, observed - extra_s, (times - 1) / spread, min(extra_s / step_s, 1.0)),
        f"{who} up to {times:.2g} times as long as the others in every step, and the job waits up to {extra_s:.2g} "
        "s a step for that: the model could be divided more evenly.",
        {
            "pp_stages": stages,
            "work_s": dict(work_s),
            "work_to_median": np.round(np.nan_to_num(ratio), 4).tolist()[:EVIDENCE_ROWS],
            "extra_s": round(extra_s, 6),
        },
    )


def shape_finding(
    place: Place, division: Division, measured: Measured, summary: str, evidence: Mapping[str, Any]
) -> Finding:
    """Say of a job, over all steps looked at, how unevenly it is divided."""
    end_ns = division.job_end_ns()
    last = place.first_step + division.steps - 1
    extent = Extent(place.first_step, last, int(end_ns[0]), int(end_ns[-1]))
    name = identity(place.job_id, "imbalance", place.job_id, place.first_step)
    return make_finding("imbalance", ("job", place.job_id), name, extent, measured, "info", summary, evidence)

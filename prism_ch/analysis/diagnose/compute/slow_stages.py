"""Slow stages: pipeline stages all of whose ranks compute longer than before, while those of others do not.

No rank of such a stage stands out from its peers. The stage does, from its own past and from the other stages, whose
ranks wait for it and work no longer than they did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from prism_ch.analysis.diagnose.compute.comparison import Comparison, compare_with_past
from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.episodes import Episode, episodes, lost_share, step_seconds
from prism_ch.analysis.diagnose.findings import Measured, Place, confidence_in, identity, make_finding, severity
from prism_ch.core import robust
from prism_ch.core.significance import better_of_rows
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.job import Division
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.result import Steps
from prism_ch.model.topology import Topology


def find_slow_stages(
    measured: Sequence[ComputeTime],
    division: Division,
    place: Place,
    topology: Topology,
    usual_s: Mapping[int, float],
) -> tuple[Finding, ...]:
    """Find the pipeline stages of an attempt that compute longer than before.

    Parameters: `measured`, the ranks' compute times; `usual_s`, what endpoints computed some time ago, in seconds.

    1. Compare each rank with its own past, less what changed for most ranks.
    2. A stage is slow in a step if nearly all of its ranks work longer, and hardly any of the others half as much:
       some of what they wait for may pass for work. What changed for most ranks counts there: of another amount of work
       stages need not take the same part.
    3. A stage within one server is left to `find_slow_gpus`: its server explains as much.
    """
    params = place.params.compute
    times = next((one for one in measured if one.absolute), None)
    if times is None or division.steps <= params.slow_steps or len(np.unique(times.role)) == 1:
        return ()
    before = np.array([usual_s.get(endpoint, np.nan) for endpoint in times.endpoints.tolist()])
    if np.isnan(before).any():
        # What changed for all would show in those alone whose past is known.
        before[:] = np.nan
    compared = compare_with_past(times, float(np.median(step_seconds(division))), before, params)
    found = []
    own_s = np.fmin(times.usual_s(params), before)
    for stage, slow in _slow_steps(compared, own_s, place):
        rows = np.flatnonzero(times.role == stage)
        if len(np.unique(topology.server[times.endpoints[rows]])) == 1:
            continue
        for episode in episodes(slow.tolist(), params.repeats):
            steps = list(episode.abnormal)
            outside = division.steps - 1 - (episode.last - episode.first + 1)
            known = compared.by_others[rows].all() or outside >= params.repeats
            if len(steps) < params.slow_steps or not known:
                continue
            finding = _describe(compared, rows, stage, episode, division, place, topology)
            if finding.slowdown >= params.worth_share:
                found.append(finding)
    return tuple(found)


def lengthens_steps(stage: Finding, steps: Steps, params: ComputeTimeParams) -> bool:
    """Return whether steps take longer since a stage seems to work longer.

    All others wait for it, though a part of that they waited before, where another stage is longer. But where waiting
    passes for work, that gets longer when something else gets faster.
    Parameters: `steps` of the job, all that are known.
    """
    whole = steps.take(steps.complete == 1)
    during_s = whole.duration_s[(whole.step >= stage.first_step) & (whole.step <= stage.last_step)]
    before_s = whole.duration_s[whole.step < stage.first_step]
    if not len(during_s) or len(before_s) < params.slow_steps:
        return True
    better_s = better_of_rows(before_s[None, :], params.reference_steps, params.compute_jitter, params.min_score)
    longer_s = float(robust.median(during_s) - better_s[0])
    return longer_s >= min(params.half * (stage.observed - stage.expected), params.small_excess * float(better_s[0]))


def _slow_steps(compared: Comparison, own_s: Float64, place: Place) -> Iterator[tuple[int, Bool]]:
    """List the stages with the steps in which they alone are slow, bool[steps].

    Parameters: `own_s` float64[m], what each rank usually computes, in seconds.
    """
    params, role = place.params, compared.times.role
    extra_s = np.nan_to_num(compared.times.seconds - own_s[:, None])
    longer = extra_s >= params.small_excess * np.nan_to_num(own_s)[:, None]
    hit = compared.score > 0
    for stage in np.unique(role).tolist():
        mine = role == stage
        as_long = longer & (extra_s >= params.half * robust.median(extra_s[mine], axis=0))
        alone = as_long[~mine].mean(axis=0) <= 1 - params.nearly_all
        slow = (hit[mine].mean(axis=0) >= params.nearly_all) & alone
        if slow.any():
            yield stage, slow


def _describe(
    compared: Comparison,
    rows: Int64,
    stage: int,
    episode: Episode,
    division: Division,
    place: Place,
    topology: Topology,
) -> Finding:
    members = compared.times.endpoints[rows]
    cells = np.ix_(rows, np.array(episode.abnormal))
    observed_s, expected_s = (float(robust.median(each[cells])) for each in (compared.times.seconds, compared.usual))
    excess = float(robust.median(compared.excess[cells]))
    lost = lost_share(division, episode, observed_s - expected_s, place.params.reference_steps)
    subject, extent = f"{place.job_id}/stage/{stage}", place.extent(division, episode)
    addresses = [topology.endpoints[member] for member in members]
    return make_finding(
        "slow_group",
        ("stage", subject),
        identity(place.job_id, "slow_group", subject, extent.first_step),
        extent,
        Measured(observed_s, expected_s, float(compared.score[cells].max()), lost),
        severity(lost, place.params),
        f"All {len(rows)} ranks of pipeline stage {stage} work {excess:.0%} longer a step than before, those of other "
        "stages do not, and wait for it: look at what the stage does, and what its hosts share.",
        {
            "pp_stage": stage,
            "ranks": len(rows),
            "servers": sorted({topology.server_names[server] for server in topology.server[members].tolist()}),
            "excess": round(excess, 4),
        },
        about=tuple(addresses),
        confidence=confidence_in("stage"),
        baseline=Baseline(compute_s=dict.fromkeys(addresses, expected_s)),
    )

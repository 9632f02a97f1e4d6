"""Usual work: how long the ranks of a life worked some time ago, remembered from one window to the next.

A rank without peers that gets slower bit by bit shows only against what it did long before.
"""

from __future__ import annotations

from collections.abc import Sequence

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division
from prism_ch.model.memory import UsualComputeTime
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.topology import Topology

#: What is remembered has so many digits: ranks that differ by 5 % are told apart.
_DIGITS = 5


def recall(usual: UsualComputeTime, measured: Sequence[ComputeTime], topology: Topology) -> dict[int, float]:
    """Return how long endpoints worked in a step some time ago, in seconds, of those that is now measured alike.

    Where it was found since that outputs do without inputs that they seemed to wait for, or a step has more of them,
    work is measured in another way than it was.
    """
    work = _absolute(measured)
    if work is None:
        return {}
    changed = {int(way.split(">")[0]) for way, last in work.needs.items() if last != usual.needs.get(way)}
    return {
        endpoint: usual.seconds[topology.endpoints[endpoint]]
        for endpoint, role in zip(work.endpoints.tolist(), work.role.tolist(), strict=True)
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
    """Return what is to be remembered after a window: what was before, for so long, and while a GPU is slow.

    Parameters: `usual`, what was remembered before, without anything in a young life, of which all is found again;
    `measured`, and `slow`, the GPUs found to be so.
    """
    work = _absolute(measured)
    if work is None:
        return usual
    now_ns = int(division.end_ns.max())
    each_s = zip(work.endpoints.tolist(), work.usual_s().tolist(), strict=True)
    seconds = {endpoint: float(f"{value:.{_DIGITS}g}") for endpoint, value in each_s if value > 0}
    is_old = now_ns - usual.found_ns > params.remembered_s * 10**9
    if is_old and not any(one.status == "open" for one in slow):
        usual = UsualComputeTime(now_ns)
    seconds |= recall(usual, measured, topology)
    return UsualComputeTime(
        usual.found_ns, {topology.endpoints[row]: value for row, value in seconds.items()}, work.needs
    )


def _absolute(measured: Sequence[ComputeTime]) -> ComputeTime | None:
    """Return the work of which more is known than who is later than others."""
    return next((work for work in measured if work.absolute), None)

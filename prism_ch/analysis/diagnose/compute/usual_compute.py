"""Usual compute times: what ranks computed some time ago, against which slowness that grows or lasts shows."""

from __future__ import annotations

from collections.abc import Sequence

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division
from prism_ch.model.memory import UsualComputeTime
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.topology import Topology

#: Significant digits of remembered compute times: ranks that differ by 5 % stay apart.
_DIGITS = 5


def before_slow(known: Sequence[Finding], topology: Topology) -> dict[int, float]:
    """Return the compute times of endpoints before open findings began, in seconds."""
    return {
        topology.index[address]: seconds
        for finding in known
        if finding.status == "open"
        for address, seconds in finding.baseline.compute_s.items()
        if address in topology.index
    }


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

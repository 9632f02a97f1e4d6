"""Finds the slow GPUs of measured compute times, as an attempt does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from prism_ch.analysis.diagnose.compute.comparison import compare
from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.compute.slow_gpus import find_slow_gpus
from prism_ch.analysis.diagnose.compute.usual_compute import before_slow
from prism_ch.analysis.diagnose.findings import Place
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.topology import Topology

PARAMS = DiagnoseParams()


def accused(
    measured: Sequence[ComputeTime],
    divided: Division,
    where: Topology,
    known: Sequence[Finding] = (),
    usual_s: Mapping[int, float] = MappingProxyType({}),
) -> tuple[Finding, ...]:
    """Compare the ranks, and find those that are slow."""
    expected_s = {**usual_s, **before_slow(known, where)}
    compared = compare(measured, divided, expected_s, PARAMS.compute)
    return find_slow_gpus(compared, divided, Place("job", 0, PARAMS), where)

"""How right the phases of GPU-steps are: compute, pipeline and data-parallel time against the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prism_ch.model.columns import Float64, Int64
from prism_ch.model.result import GpuSteps
from prism_ch.model.topology import Topology
from prism_ch.simulate import Simulation
from tests.unit.chain import Results

#: A step found is the true one whose end is nearest, within this share of the true step.
_TOLERANCE = 0.25
_PHASES = ("compute_s", "pp_s", "dp_s")


@dataclass(frozen=True, slots=True)
class PhaseError:
    """The errors of GPU-steps, summed, as shares of their step; how many are summed, and how many are not found.

    One that is not found is wrong as a whole.
    """

    total: float = 0.0
    gpu_steps: int = 0
    missed: int = 0

    def __add__(self, other: PhaseError) -> PhaseError:
        return PhaseError(self.total + other.total, self.gpu_steps + other.gpu_steps, self.missed + other.missed)

    @property
    def mean(self) -> float | None:
        """The mean error of a GPU-step; None without any."""
        return (self.total + self.missed) / self.count if self.count else None

    @property
    def count(self) -> int:
        """How many GPU-steps there are."""
        return self.gpu_steps + self.missed


def phase_error(results: Results, topology: Topology, made: Simulation) -> PhaseError:
    """Measure which share of each complete GPU-step is in another phase than in truth.

    A GPU-step that ends inside a pause or stop is none of the true ones, and one that ends after all of ours is of a
    step that the job has not ended. Needs a scenario with phases.
    """
    truth = made.truth["gpu_steps"]
    truth = truth.filter(truth["complete"])
    ours = GpuSteps.concat([job.gpu_steps for job in results.jobs.values()])
    ours = ours.take(ours.complete == 1)
    if len(ours):
        truth = truth.filter(pc.less_equal(truth["end_ns"], int(ours.end_ns.max())))
    code = {address: row for row, address in enumerate(topology.endpoints)}
    return _compare(truth, np.array([code[name] for name in truth["endpoint"].to_pylist()], dtype=np.int64), ours)


def _compare(truth: pa.Table, endpoint: Int64, ours: GpuSteps) -> PhaseError:
    if not len(truth) or not len(ours):
        return PhaseError(0.0, 0, len(truth))
    ends, duration_s = truth["end_ns"].to_numpy(), truth["duration_s"].to_numpy()
    order = np.lexsort((ours.end_ns, ours.endpoint))
    held = ours.take(order)
    nearest = _nearest(held, endpoint, ends)
    near = (held.endpoint[nearest] == endpoint) & (np.abs(held.end_ns[nearest] - ends) <= _TOLERANCE * duration_s * 1e9)
    true = np.stack([truth[name].to_numpy() for name in _PHASES])[:, near]
    told: Float64 = np.stack([getattr(held, name) for name in _PHASES])[:, nearest[near]]
    error = np.abs(told - true).max(axis=0) / duration_s[near]
    return PhaseError(float(error.sum()), int(near.sum()), int((~near).sum()))


def _nearest(held: GpuSteps, endpoint: Int64, ends: Int64) -> Int64:
    """Return the row of the GPU-step of the same endpoint whose end is nearest, int64[n]."""
    base = min(int(held.end_ns.min()), int(ends.min()))
    span = max(int(held.end_ns.max()), int(ends.max())) - base + 1
    key, wanted = held.endpoint.astype(np.int64) * span + held.end_ns - base, endpoint * span + ends - base
    after = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    before = np.maximum(after - 1, 0)
    return np.asarray(np.where(np.abs(key[before] - wanted) < np.abs(key[after] - wanted), before, after))

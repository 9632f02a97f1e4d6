"""How long a message takes between two endpoints: link rates, what faults leave of them, and chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Float64
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.workload import COMPUTE_FAULTS, Fault

#: One way through NIC, switches and NIC; a hop inside a server.
NETWORK_LATENCY_S = 8e-6
#: The share of its line rate that a healthy NIC makes of long messages: mean and half width of the scatter.
EFFICIENCY = 0.94
EFFICIENCY_SPREAD = 0.03

Index = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class _Bottleneck:
    """The part of a fault's bandwidth that is left, on flows out of or into marked endpoints."""

    out_of: npt.NDArray[np.bool_]
    into: npt.NDArray[np.bool_]
    both: bool
    factor: float
    start_s: float
    end_s: float

    def hits(self, src: Index, dst: Index) -> npt.NDArray[np.bool_]:
        """Mark the flows that cross it."""
        out, inn = self.out_of[src], self.into[dst]
        return (out & inn) if self.both else (out | inn)


class Links:
    """Nominal message times over the network, and how much longer they take under the scenario's faults."""

    def __init__(self, network: Network, faults: tuple[Fault, ...]) -> None:
        self._byte_s = 8e-9 / (network.cluster.link_gbps * EFFICIENCY)
        self.inside_byte_s = 8e-9 / network.cluster.nvlink_gbps
        self._server = network.server
        self._bottlenecks = tuple(_bottleneck(fault, network) for fault in faults if fault.kind not in COMPUTE_FAULTS)

    def byte_s(self, src: Index, dst: Index, share: float = 1.0) -> Float64:
        """Seconds a byte between endpoints, with `share` of a NIC's rate; over NVLink inside a server."""
        inside = self._server[src] == self._server[dst]
        return np.where(inside, self.inside_byte_s, self._byte_s / share)

    def slowdown(self, src: Index, dst: Index, time_s: Float64) -> Float64 | float:
        """How many times longer a message takes that starts at `time_s` (which may have more, leading axes)."""
        factor: Float64 | float = 1.0
        for fault in self._bottlenecks:
            hit = fault.hits(src, dst)
            if hit.any():
                during = (time_s >= fault.start_s) & (time_s < fault.end_s)
                factor = factor * np.where(hit & during, 1.0 / fault.factor, 1.0)
        return factor

    @property
    def healthy(self) -> bool:
        """Whether no link is ever slow."""
        return not self._bottlenecks


def _bottleneck(fault: Fault, network: Network) -> _Bottleneck:
    gpus = np.array([fault.gpu, max(fault.peer, 0)])
    first, second = network.endpoint_of_gpu(gpus).tolist()
    out_of = np.zeros(len(network.addresses), dtype=bool)
    into = np.zeros(len(network.addresses), dtype=bool)
    directed = fault.kind == "slow_link"
    if fault.kind == "slow_switch":
        out_of |= network.leaf == network.leaf[first]
        into |= out_of
    else:
        out_of[first] = into[second if directed else first] = True
    return _Bottleneck(out_of, into, directed, fault.factor, fault.start_s, fault.end_s)

"""Waited for: the GPU, or the server, that was last to be ready in most slow steps, more often than by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from prism_ch.model.columns import Int32
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Straggler:
    """Whom the others waited for in `times` of `count` slow steps: an endpoint, or, where it is not -1, a server."""

    endpoint: int
    server: int
    times: int
    count: int

    def name(self, topology: Topology) -> str:
        """Return the endpoint's address, or the server's name."""
        return topology.endpoints[self.endpoint] if self.server < 0 else topology.server_names[self.server]

    def sentence(self, topology: Topology) -> str:
        """Say who was waited for, and what to do."""
        if self.server < 0:
            place = f"{topology.server_names[topology.server[self.endpoint]]}, GPU {topology.gpu[self.endpoint]}"
            who, check = f"{self.name(topology)} ({place}), last to be ready", "check that GPU and its host"
        else:
            who, check = f"{self.name(topology)}, whose GPUs were last to be ready", "check its GPUs and the host"
        return f"the others waited for {who} in {self.times} of {self.count} slow steps: {check}."


def find_straggler(
    last_ready: Int32, before: Int32, servers: int, topology: Topology, params: DiagnoseParams
) -> Straggler | None:
    """Find whom the others waited for in slow steps; None where chance may have drawn the last to be ready.

    Parameters: `last_ready` int32[n], the last endpoint to be ready in each slow step, and `before`, in the healthy
    steps before; -1 of one that has left the topology; `servers`, how many the job is on. The GPUs of a server that
    wait for one another inside it are late together, and any of them is the last: then it is their server that stands
    out, if it did not before, since some server of few is always last more often than the others.
    """
    endpoint, times = most_frequent(last_ready)
    if stands_out(times, len(last_ready), 1 / servers, servers, params):
        return Straggler(endpoint, -1, times, len(last_ready))
    server, of_server = most_frequent(_servers(last_ready, topology))
    usual = float(np.mean(_servers(before, topology) == server)) if len(before) else 0.0
    if stands_out(of_server, len(last_ready), max(usual, 1 / servers), servers, params):
        return Straggler(endpoint, server, of_server, len(last_ready))
    return None


def stands_out(times: int, count: int, chance: float, servers: int, params: DiagnoseParams) -> bool:
    """Say whether chance would hardly make somebody on one of `servers` last in so many of `count` slow steps.

    Parameters: `chance` that it is in one of them. The endpoints of a server are late together, so chance draws
    servers.
    """
    by_chance = float(special.bdtrc(times - 1, count, chance)) * servers
    return times >= params.min_culprit_share * count and by_chance <= params.max_culprit_chance


def most_frequent(numbers: Int32) -> tuple[int, int]:
    """Return the number that occurs most often, and how often; one that is not known (-1) does not count."""
    times = np.bincount(numbers[numbers >= 0], minlength=1)
    return int(np.argmax(times)), int(times.max())


def _servers(endpoints: Int32, topology: Topology) -> Int32:
    """Return the server of each endpoint, int32[n], -1 where it is not known."""
    return np.where(endpoints >= 0, topology.server[endpoints], -1).astype(np.int32)

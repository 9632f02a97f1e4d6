"""Candidates: the links, endpoints and switches that may be to blame for what is slow, and what each touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array

from prism_ch.analysis.diagnose.episodes import Episode
from prism_ch.analysis.diagnose.network.time_per_byte import TimePerByte
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.finding import FindingKind
from prism_ch.model.topology import Topology

#: Which rows each candidate touches: 1, else 0.
Touches: TypeAlias = "csr_array[np.float64, tuple[int, int]]"


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may be to blame: directed links, endpoints, switches. `touches` [h, n] are the rows of each."""

    links: Int32
    endpoints: Int32
    switches: Int32
    touches: Touches

    def kind(self, number: int) -> FindingKind:
        """Return the kind of finding that accuses a candidate."""
        if number < len(self.links):
            return "slow_link"
        return "slow_nic" if number < len(self.links) + len(self.endpoints) else "slow_switch"

    def name(self, number: int, topology: Topology) -> str:
        """Name a candidate."""
        if number < len(self.links):
            src, dst = self.links[number].tolist()
            return f"{topology.endpoints[src]}->{topology.endpoints[dst]}"
        number -= len(self.links)
        if number < len(self.endpoints):
            return topology.endpoints[int(self.endpoints[number])]
        return topology.leaf_names[int(self.switches[number - len(self.endpoints)])]


@dataclass(frozen=True, slots=True)
class Blamed:
    """Candidates that explain an episode equally well, the best first, with what they explain, bool[n].

    `episode` is one of the `runs` in which they are slow; `scores` float64[k].
    """

    candidates: tuple[int, ...]
    runs: tuple[Episode, ...]
    episode: Episode
    rows: Bool
    scores: Float64


def list_candidates(pace: TimePerByte, topology: Topology) -> Candidates:
    """List what may be to blame, and which rows each touches."""
    links, link = np.unique(np.stack([pace.src, pace.dst], axis=1), axis=0, return_inverse=True)
    endpoints, endpoint = np.unique(np.concatenate([pace.src, pace.dst]), return_inverse=True)
    switches, switch = np.unique(topology.leaf[endpoints], return_inverse=True)
    crowd = np.bincount(switch) > 1  # of one endpoint, its switch is no more to blame than its NIC
    row = np.concatenate([pace.row, np.tile(pace.row, 2), np.tile(pace.row, 2)])
    number = np.concatenate([link.ravel(), len(links) + endpoint, len(links) + len(endpoints) + switch[endpoint]])
    kept = number < len(links) + len(endpoints)
    kept[~kept] = crowd[switch[endpoint]]
    shape = (len(links) + len(endpoints) + len(switches), len(pace.group))
    touches = _incidence(number[kept], row[kept].astype(np.int64), shape)
    return Candidates(links, endpoints.astype(np.int32), switches.astype(np.int32), touches)


def joined(touches: Touches, parts: Int64) -> Touches:
    """Let the first of some rows stand for all of them."""
    stands_for = np.arange(touches.shape[1])
    stands_for[parts] = parts[0]
    number, row = touches.nonzero()
    return _incidence(number.astype(np.int64), stands_for[row], touches.shape)


def _incidence(number: Int64, row: Int64, shape: tuple[int, int]) -> Touches:
    """Return the matrix that is 1 where a candidate touches a row, however often."""
    touches = csr_array((np.ones(len(row)), (number, row)), shape=shape)
    touches.data[:] = 1.0
    return touches

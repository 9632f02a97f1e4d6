"""Places: what flows cross, and which of them something slow is told apart by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array

from prism_ch.analysis.diagnose.network.time_per_byte import TimePerByte
from prism_ch.core.arrays import ranges
from prism_ch.model.columns import Int32, Int64
from prism_ch.model.finding import FindingKind
from prism_ch.model.topology import Topology

#: Which rows each candidate touches: 1, else 0.
Touches: TypeAlias = "csr_array[np.float64, tuple[int, int]]"

#: A link is two ways; a communicator over two pods crosses the switches of both.
BOTH = 2

#: What a finding on a place is called, and the place: a link or uplink is `a->b`.
Named: TypeAlias = tuple[FindingKind, str]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Links, endpoints, switches and uplinks, by kind and name; `touches` [h, n] are their rows."""

    named: tuple[Named, ...]
    touches: Touches


def list_candidates(times: TimePerByte, topology: Topology, *, lone_leaves: bool = False) -> Candidates:
    """List what the rows cross. That is links of NICs, NICs, leaves, and by known ways what lies between these.

    Parameters: `lone_leaves`, whether to list the leaf of a single endpoint, which explains no more than its NIC.
    """
    near, number, row = crossed_at_ends(times.row, times.src, times.dst, topology, lone_leaves=lone_leaves)
    between, way_row, place = _between_leaves(times)
    number, row = np.concatenate([number, len(near) + place]), np.concatenate([row.astype(np.int64), way_row])
    named = (*near, *between)
    return Candidates(named, incidence(number, row, len(named), len(times.group)))


def crossed_at_ends(
    row: Int32, src: Int32, dst: Int32, topology: Topology, *, lone_leaves: bool
) -> tuple[list[Named], Int64, Int32]:
    """Name the links of NICs, NICs and leaves that rows cross.

    Returns them, and places and rows that meet, int64[m] and int32[m]. Parameters: `row`, `src`, `dst` int32[r], an
    entry for each pair of a row; `lone_leaves`, see `list_candidates`.
    """
    links, link = np.unique(np.stack([src, dst], axis=1), axis=0, return_inverse=True)
    endpoints, endpoint = np.unique(np.concatenate([src, dst]), return_inverse=True)
    switches, switch = np.unique(topology.leaf[endpoints], return_inverse=True)
    several = np.bincount(switch) > (0 if lone_leaves else 1)
    rows = np.concatenate([row, np.tile(row, 2), np.tile(row, 2)])
    number = np.concatenate([link.ravel(), len(links) + endpoint, len(links) + len(endpoints) + switch[endpoint]])
    kept = number < len(links) + len(endpoints)
    kept[~kept] = several[switch[endpoint]]
    named: list[Named] = [
        *(("slow_link", f"{topology.endpoints[one]}->{topology.endpoints[other]}") for one, other in links.tolist()),
        *(("slow_nic", topology.endpoints[one]) for one in endpoints.tolist()),
        *(("slow_switch", topology.leaf_names[one]) for one in switches.tolist()),
    ]
    return named, number[kept], rows[kept]


def _between_leaves(times: TimePerByte) -> tuple[list[Named], Int64, Int64]:
    """Name the places on known ways, and return rows and places that meet, int64[m] each."""
    number: dict[Named, int] = {}
    places = [[number.setdefault(name, len(number)) for name in _on_way(way)] for way in times.ways]
    count = np.array([len(each) for each in places], dtype=np.int64)
    begin = np.cumsum(count) - count
    flat = np.array([one for each in places for one in each], dtype=np.int64)
    known = np.flatnonzero(times.way >= 0)
    way = times.way[known]
    place = flat[ranges(begin[way], count[way])]
    return list(number), np.repeat(times.row[known].astype(np.int64), count[way]), place


def _on_way(way: tuple[str, ...]) -> Iterator[Named]:
    """Yield the switches of a way but its leaves, and the links between switches."""
    for switch in way[1:-1]:
        yield "slow_switch", switch
    for here, there in pairwise(way):
        yield "slow_link", f"{here}->{there}"


def is_between_leaves(named: Named, topology: Topology) -> bool:
    """Whether a place is a switch above the leaves, or a link between two switches."""
    kind, name = named
    if kind == "slow_link":
        return name.partition("->")[0] not in topology.index
    return kind == "slow_switch" and name not in topology.leaf_names


def has_many_switches(places: Iterable[Named]) -> bool:
    """Whether there are more switches among places than one link crosses.

    What crosses all of them is one communicator.
    """
    return sum(kind == "slow_switch" for kind, _ in places) > BOTH


def incidence(number: Int64, row: Int32 | Int64, candidates: int, rows: int) -> Touches:
    """Return the matrix that is 1 where a candidate touches a row, however often."""
    touches = csr_array((np.ones(len(row)), (number, row)), shape=(candidates, rows))
    touches.data[:] = 1.0
    return touches

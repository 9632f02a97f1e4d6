"""Which rank sends what share of a collective's buffer to which: edges of rings over groups of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Float64, Int64
from prism_ch.simulate.scenario import RingExit


@dataclass(frozen=True, slots=True)
class Edges:
    """Directed edges between ranks that leave a server, sorted by group.

    `share` is the part of the group's buffer that crosses the edge when every member's buffer goes once round the ring
    (all but its own piece of it: (d - 1) / d, over the channels); `channel` numbers the ring.
    """

    src: Int64
    dst: Int64
    group: Int64
    share: Float64
    channel: Int64

    def __len__(self) -> int:
        """Count the edges."""
        return len(self.src)


def ring_edges(groups: Int64, server: Int64, channels: int, leave: RingExit) -> Edges:
    """Build the rings of every group.

    Parameters: `groups`, int64[groups, members], ranks; `server`, int64[ranks]; `channels`, rings a group, raised to
    the largest number of members in one server, so that each member's NIC has its part, as NCCL does; `leave`, see
    GradientSync. A ring runs server by server; hops inside a server are not listed.
    """
    rows = [
        (src, dst, number, share, channel)
        for number, members in enumerate(groups.tolist())
        for src, dst, share, channel in _rings(members, server, channels, leave)
    ]
    columns = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    src, dst, group, channel = (columns[i].astype(np.int64) for i in (0, 1, 2, 4))
    return Edges(src, dst, group, columns[3].copy(), channel)


def _rings(members: list[int], server: Int64, channels: int, leave: RingExit) -> Iterator[tuple[int, int, float, int]]:
    """Yield (src, dst, share, channel) of one group's rings."""
    by_server: dict[int, list[int]] = {}
    for rank in members:
        by_server.setdefault(int(server[rank]), []).append(rank)
    stops = list(by_server.values())
    if len(stops) < 2:
        return
    rings = max(channels, *(len(stop) for stop in stops))
    share = (len(members) - 1) / len(members) / rings
    for channel in range(rings):
        for here, there in zip(stops, stops[1:] + stops[:1], strict=True):
            exit_index = channel if leave == "rail" else channel - 1
            yield here[exit_index % len(here)], there[channel % len(there)], share, channel

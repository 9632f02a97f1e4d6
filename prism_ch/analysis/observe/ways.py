"""Ways: which switches a flow crossed, where its own record does not tell.

A 5-tuple keeps its way, as switches choose by a hash of it (ECMP, RFC 2992).

1. What one exporter tells of a 5-tuple's way holds for what all others saw of it.
2. Where none tells, the exporters that saw most of its flows are on its way: the sender's leaf first, the receiver's
   last, those between them in the order in which they saw the flows of all 5-tuples that crossed the same switches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_ch.core.arrays import order_by, run_lengths, run_starts
from prism_ch.core.robust import median
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import ObserveParams
from prism_ch.model.topology import Topology


def find_ways(batch: FlowBatch, topology: Topology, params: ObserveParams) -> FlowBatch:
    """Return the batch with the ways that other observations of a 5-tuple show.

    Parameters: `batch`, all observations, by right clocks. Between two leaves a way is known if a switch between them
    is: one that exports no records makes no way.
    """
    unknown = batch.way < 0
    if not unknown.any() or (unknown.all() and not batch.shared().any()):
        return batch
    five_tuple = batch.five_tuples()
    batch = _told_by_others(batch, five_tuple)
    return _by_exporters(batch, five_tuple, topology, params)


def _told_by_others(batch: FlowBatch, five_tuple: Int64) -> FlowBatch:
    """Give observations without a way the newest one that is known of their 5-tuple."""
    known = np.flatnonzero(batch.way >= 0)
    newest = np.full(int(five_tuple.max(initial=-1)) + 1, -1, dtype=np.int32)
    known = known[np.argsort(batch.end_ns[known], kind="stable")]
    newest[five_tuple[known]] = batch.way[known]
    return replace(batch, way=np.where(batch.way < 0, newest[five_tuple], batch.way))


def _by_exporters(batch: FlowBatch, five_tuple: Int64, topology: Topology, params: ObserveParams) -> FlowBatch:
    rows = np.flatnonzero(batch.way < 0)
    if len(rows) == 0:
        return batch
    order = order_by(five_tuple[rows], batch.exporter[rows])
    rows = rows[order]
    begin = run_starts(five_tuple[rows], batch.exporter[rows])
    count = run_lengths(begin, len(rows))
    tuples = five_tuple[rows][begin]
    # Records are lost; a switch that saw few of a 5-tuple's flows is on another way, for a while.
    most = np.zeros(int(tuples.max()) + 1, dtype=np.int64)
    np.maximum.at(most, tuples, count)
    on_way = count >= params.half * most[tuples]
    begun_ns = np.add.reduceat((batch.start_ns[rows] - int(batch.start_ns.min())).astype(np.float64), begin) / count
    late_ns = np.where(count == most[tuples], begun_ns, np.nan)[on_way]
    first = rows[begin[on_way]]
    leaves = np.stack([topology.leaf[batch.src[first]], topology.leaf[batch.dst[first]]], axis=1)
    found = _ordered(tuples[on_way], batch.exporter[first], late_ns, leaves, batch.exporters, topology)
    ways = (*batch.ways, *sorted(set(found.values()) - set(batch.ways)))
    number = {way: place for place, way in enumerate(ways)}
    of_tuple = np.full(len(most), -1, dtype=np.int32)
    of_tuple[list(found)] = [number[way] for way in found.values()]
    way = batch.way.copy()
    way[rows] = of_tuple[five_tuple[rows]]
    return replace(batch, way=way, ways=ways)


def _ordered(
    five_tuple: Int64, exporter: Int32, begun_ns: Float64, leaves: Int32, exporters: tuple[str, ...], topology: Topology
) -> dict[int, tuple[str, ...]]:
    """Return the way of each 5-tuple by its number.

    Parameters, a row each 5-tuple and exporter, sorted by 5-tuple: `begun_ns` float64[n], when the exporter saw the
    flows begin, on average, NaN where it missed some; `leaves` int32[n, 2], the leaves of sender and receiver.
    """
    begin = run_starts(five_tuple)
    after: dict[tuple[tuple[int, int], frozenset[int]], list[Float64]] = {}
    between: dict[int, tuple[tuple[int, int], frozenset[int]]] = {}
    for rows in np.split(np.arange(len(five_tuple)), begin[1:]):
        ends = (int(leaves[rows[0], 0]), int(leaves[rows[0], 1])) if len(rows) else (0, 0)
        names = {topology.leaf_names[end] for end in ends}
        inner = np.array([row for row in rows.tolist() if exporters[exporter[row]] not in ("", *names)], dtype=np.int64)
        if len(inner) == 0 or (len(rows) == 1 and ends[0] != ends[1]):
            continue
        place = ends, frozenset(exporter[inner].tolist())
        between[int(five_tuple[rows[0]])] = place
        order = np.argsort(exporter[inner])
        after.setdefault(place, []).append(begun_ns[inner[order]])
    ways: dict[tuple[tuple[int, int], frozenset[int]], tuple[str, ...]] = {}
    for place, seen in after.items():
        (source, target), inside = place
        late_ns = median(np.array([each - each.mean() for each in seen]), axis=0)
        middle = (exporters[sorted(inside)[row]] for row in np.argsort(late_ns, kind="stable").tolist())
        ways[place] = (topology.leaf_names[source], *middle, topology.leaf_names[target])
    return {one: ways[place] for one, place in between.items()}

"""Ways: told by records, by others of the same 5-tuple, and by the exporters that saw it."""

from __future__ import annotations

from dataclasses import replace

from prism_ch.analysis.observe.ways import find_ways
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import Params
from tests.unit.analysis.build import Flow, batch, topology

PLACES = topology(3, leaves=("leaf-a", "leaf-b", "leaf-b"))
PARAMS = Params().observe
WAY = ("leaf-a", "spine-1", "leaf-b")


def ways(seen: FlowBatch) -> list[tuple[str, ...]]:
    found = find_ways(seen, PLACES, PARAMS)
    return [found.ways[way] if way >= 0 else () for way in found.way]


def hops(*exporters: str, port: int = 1, times: int = 4, src: int = 0, dst: int = 1) -> list[Flow]:
    """Flows of one 5-tuple, each seen a microsecond later by the next exporter."""
    return [
        Flow(src, dst, 20.0 * number + 0.001 * hop, exporter=exporter, port=port)
        for number in range(times)
        for hop, exporter in enumerate(exporters)
    ]


def test_way_of_a_record_is_kept() -> None:
    assert ways(batch([Flow(0, 1, 0, way=("x", "y", "z"))])) == [("x", "y", "z")]


def test_way_of_one_record_is_that_of_its_five_tuple() -> None:
    seen = batch([Flow(0, 1, 0, way=WAY), Flow(0, 1, 5), Flow(0, 1, 9, port=2)])
    assert ways(seen) == [WAY, WAY, ()]


def test_exporters_of_a_five_tuple_are_its_way() -> None:
    seen = batch([*hops("leaf-a", "spine-1", "leaf-b"), *hops("leaf-a", "spine-2", "leaf-b", port=2)])
    assert set(ways(seen)) == {WAY, ("leaf-a", "spine-2", "leaf-b")}


def test_exporters_between_leaves_are_ordered_by_time() -> None:
    seen = batch(hops("leaf-a", "z", "core", "a", "leaf-b"))
    assert set(ways(seen)) == {("leaf-a", "z", "core", "a", "leaf-b")}


def test_lost_records_of_a_switch_do_not_change_a_way() -> None:
    flows = hops("leaf-a", "spine-1", "leaf-b", times=10)
    assert set(ways(batch([flow for row, flow in enumerate(flows) if row not in (4, 9, 12)]))) == {WAY}


def test_way_is_unknown_where_only_leaves_export() -> None:
    assert set(ways(batch(hops("leaf-a", "leaf-b")))) == {()}


def test_way_is_unknown_where_one_exporter_saw_it() -> None:
    assert set(ways(batch(hops("leaf-a")))) == {()}


def test_ways_do_not_depend_on_the_order_of_exporters() -> None:
    seen = batch(hops("leaf-a", "spine-1", "leaf-b"))
    turned = replace(seen, exporter=2 - seen.exporter, exporters=seen.exporters[::-1])
    assert ways(turned) == ways(seen)

"""A right topology has no problem, whatever its layout; a mistake is found at its line by the file or by traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from prism_ch.ingest.topology_check import TopologyProblem, check_topology, rows_at
from prism_ch.store.topology import EndpointRow

Rows = list[EndpointRow]
#: Puts a mistake at a row; returns the rows, and those at which it is.
Mistake = Callable[[Rows, int, np.random.Generator], tuple[Rows, set[int]]]
RIGHT, MISTAKES = range(60), range(70)


@dataclass(frozen=True)
class Layout:
    """Servers of each pod, with NICs a server and NICs a GPU; `rails` false: rail 0 and one leaf a pod."""

    pods: tuple[tuple[int, int], ...]
    nics_a_gpu: int = 1
    rails: bool = True
    gpus_a_nic: int = 1
    tenants: int = 1
    shared: bool = False
    storage: int = 0
    known: bool = True


LAYOUTS = {
    "eight": Layout(((8, 8), (8, 8)), tenants=2),
    "eight-one-pod": Layout(((6, 8),)),
    "one-nic": Layout(((12, 1), (12, 1)), rails=False, tenants=2),
    "two-nics-a-gpu": Layout(((5, 8), (5, 8)), nics_a_gpu=2),
    "four-nics": Layout(((8, 4),), gpus_a_nic=2, tenants=2),
    "odd": Layout(((3, 3),)),
    "odd-five": Layout(((5, 2),)),
    "odd-two": Layout(((2, 4),)),
    "single": Layout(((1, 4),)),
    "mixed": Layout(((6, 8), (5, 4)), tenants=2),
    "mixed-small": Layout(((1, 8), (4, 4))),
    "shared": Layout(((6, 8),), tenants=2, shared=True),
    "storage": Layout(((8, 8),), tenants=2, storage=3),
    "storage-one-nic": Layout(((9, 1),), rails=False, storage=2),
    "leaf-a-pod": Layout(((6, 8), (6, 8)), tenants=3),
    "unknown-places": Layout(((6, 4),), known=False),
}


def right_rows(name: str, rng: np.random.Generator) -> Rows:
    layout = LAYOUTS[name]
    grow = int(rng.integers(0, 4)) if layout.pods[0][0] > 4 else 0
    rows: Rows = []
    server = 0
    for pod, (servers, nics) in enumerate(layout.pods):
        for place in range(servers + grow):
            for nic in range(nics):
                gpu = nic * layout.gpus_a_nic // layout.nics_a_gpu
                rail = nic if layout.rails else 0
                leaf = f"172.16.{pod}.{0 if name == 'leaf-a-pod' else rail}"
                owner = (gpu * 2 // nics) if layout.shared else place * layout.tenants // (servers + grow)
                rows.append(
                    EndpointRow(
                        endpoint=f"10.{rail}.{server}.{nic}",
                        valid_from_ns=None,
                        valid_to_ns=None,
                        server=f"srv-{server:03d}",
                        gpu=gpu,
                        rail=str(rail) if layout.known else "",
                        leaf=leaf if layout.known else "",
                        pod=f"pod-{pod}" if layout.known else "",
                        tenant=f"team-{'abc'[owner]}" if layout.known else "",
                    )
                )
            server += 1
    for node in range(layout.storage):
        first = rows[0]
        rows.append(replace(first, endpoint=f"10.250.0.{node}", server=f"storage-{node}", rail="0", tenant=""))
    return rows


def traffic_of(rows: Rows, rng: np.random.Generator) -> pa.Table:
    """What the first or every switch exports, under the leaf's name or another, and flows of an unknown address."""
    every, named = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
    seen: list[tuple[str, str, str, float]] = []
    for (one, other), size in moved_bytes(rows, rng).items():
        leaves = [rows[one].leaf or "x"]
        if every and rows[one].leaf != rows[other].leaf:
            leaves += [f"spine-{(one + other) % 4}", rows[other].leaf or "x"]
        exporters = [leaf if named or leaf.startswith("spine") else f"sw{leaf[7:]}" for leaf in leaves]
        seen += [(rows[one].endpoint, rows[other].endpoint, each, size + at) for at, each in enumerate(exporters)]
        if rng.random() < 0.05:
            seen.append(("10.99.0.1", rows[one].endpoint, exporters[0], 500.0))
    return traffic_table(seen)


def moved_bytes(rows: Rows, rng: np.random.Generator) -> dict[tuple[int, int], float]:
    """Rings of each tenant and rail, pairs of pipelines, reads of storage, and stray flows."""
    moved: dict[tuple[int, int], float] = {}
    groups: dict[tuple[str, str], list[int]] = {}
    storage = {place for place, row in enumerate(rows) if row.server.startswith("storage")}
    for place, row in enumerate(rows):
        moved |= {(node, place): 1e6 for node in storage}
        if place not in storage:
            groups.setdefault((row.tenant, row.rail or str(row.gpu)), []).append(place)
    for held in filter(lambda held: len(held) > 1, groups.values()):
        for one, other in zip(held, [*held[1:], held[0]], strict=True):
            moved[one, other] = 1e9
            moved[other, one] = moved.get((other, one), 1e7)
        half = len(held) // 2
        for one, other in zip(held[:half], held[half:], strict=False):
            moved[one, other] = moved.get((one, other), 0) + 3e8
    for one, other in rng.integers(0, len(rows), (len(rows), 2)).tolist():
        if rows[one].server != rows[other].server:
            moved.setdefault((one, other), float(rng.integers(100, 10_000)))
    return moved


def traffic_table(seen: Sequence[tuple[str, str, str, float]]) -> pa.Table:
    names = ("src_addr", "dst_addr", "exporter")
    texts = {name: pa.array([row[at] for row in seen], pa.string()) for at, name in enumerate(names)}
    return pa.table(texts | {"bytes": pa.array([int(row[3]) for row in seen], pa.uint64())})


@pytest.mark.parametrize("name", LAYOUTS)
def test_right_topology_has_no_problem(name: str) -> None:
    for seed in RIGHT:
        rng = np.random.default_rng([seed, 1])
        rows = right_rows(name, rng)
        assert check_topology(rows) == [], seed
        assert check_topology(rows, traffic_of(rows, rng)) == [], seed


def gpu_twice(rows: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, set[int]]:
    others = [row.gpu for row in rows if row.server == rows[place].server and row.gpu != rows[place].gpu]
    return changed(rows, place, gpu=others[int(rng.integers(0, len(others)))]), {place}


def strange_leaf(rows: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, set[int]]:
    return changed(rows, place, leaf="172.16.77.7"), {place}


def misspelt_tenant(rows: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, set[int]]:
    name = rows[place].tenant
    at = int(rng.integers(0, 4))
    wrong = [name[:at] + "x" + name[at + 1 :], name[:at] + name[at + 1 :], name[:at] + "x" + name[at:]]
    swapped = name[:at] + name[at + 1] + name[at] + name[at + 2 :]
    return changed(rows, place, tenant=[*wrong, swapped][int(rng.integers(0, 4))]), {place}


def rail_nine(rows: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, set[int]]:
    return changed(rows, place, rail="9"), {place}


def servers_swapped(rows: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, set[int]]:
    """Exchange the servers of two NICs of different rails: all of their lines, or the names alone."""
    mine = rows[place]
    alike = [n for n, row in enumerate(rows) if row.server != mine.server and row.rail != mine.rail and row.rail]
    other = alike[int(rng.integers(0, len(alike)))]
    field = ("endpoint", "server")[int(rng.integers(0, 2))]
    values = getattr(mine, field), getattr(rows[other], field)
    return changed(changed(rows, place, **{field: values[1]}), other, **{field: values[0]}), {place, other}


def missing_nic(rows: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, set[int]]:
    left = rows[:place] + rows[place + 1 :]
    return left, {n for n, row in enumerate(left) if row.server == rows[place].server}


def changed(rows: Rows, place: int, **fields: object) -> Rows:
    return [*rows[:place], replace(rows[place], **fields), *rows[place + 1 :]]  # type: ignore[arg-type]


MANY_NICS = ("eight", "eight-one-pod", "four-nics", "mixed", "shared", "storage", "leaf-a-pod")
#: Layouts in which a mistake shows: a ring of two, or one NIC a server, may leave it open which line is wrong.
KINDS: dict[Mistake, tuple[str, ...]] = {
    gpu_twice: (*MANY_NICS, "two-nics-a-gpu", "odd", "odd-five", "odd-two"),
    strange_leaf: (*MANY_NICS, "two-nics-a-gpu", "one-nic", "odd", "odd-five"),
    misspelt_tenant: (*MANY_NICS, "two-nics-a-gpu", "one-nic", "odd", "odd-two", "odd-five"),
    rail_nine: (*MANY_NICS, "two-nics-a-gpu", "one-nic", "odd", "odd-two", "odd-five"),
    servers_swapped: (*MANY_NICS, "two-nics-a-gpu", "odd"),
    missing_nic: (*MANY_NICS, "two-nics-a-gpu", "odd", "odd-five"),
}


@pytest.mark.parametrize("mistake", KINDS, ids=lambda mistake: mistake.__name__)
def test_mistakes_are_found_at_their_lines(mistake: Mistake) -> None:
    found_right, found_wrong = [], []
    for seed in MISTAKES:
        rng = np.random.default_rng([seed, 2])
        rows = right_rows(KINDS[mistake][seed % len(KINDS[mistake])], rng)
        traffic = traffic_of(rows, rng)
        gpu_rows = [place for place, row in enumerate(rows) if not row.server.startswith("storage")]
        mistaken, places = mistake(rows, gpu_rows[int(rng.integers(0, len(gpu_rows)))], rng)
        found = {problem.row for problem in check_topology(mistaken, traffic)}
        found_right.append(bool(found & places))
        found_wrong.append(bool(found - places))
    assert np.mean(found_right) >= 0.95
    assert np.mean(found_wrong) <= 0.05


def one_problem(rows: Rows, traffic: pa.Table | None = None) -> TopologyProblem:
    [problem] = check_topology(rows, traffic)
    return problem


def test_missing_nic_is_named() -> None:
    rows = right_rows("eight-one-pod", np.random.default_rng(0))
    problem = one_problem(rows[:11] + rows[12:])
    assert problem.row == 8
    assert problem.reason.startswith("server srv-001 has 7 endpoints where ")
    assert problem.mend == "add the endpoint of GPU 3 on rail 3"


def test_leaf_that_all_write_alike_but_no_exporter_has() -> None:
    rng = np.random.default_rng(6)
    rows = right_rows("eight-one-pod", rng)
    seen = [(row.endpoint, "10.99.0.1", row.leaf, 1e9) for row in rows]
    wrong = [replace(row, leaf="leaf-3") if row.rail == "3" else row for row in rows]
    problem = one_problem(wrong, traffic_table(seen))
    assert problem.row == 3
    assert problem.reason.startswith("no exporter is leaf leaf-3: what 10.3.0.3 sends is first seen by 172.16.0.3")
    assert problem.mend.startswith("write 172.16.0.3, here and on ")


def test_exporters_that_follow_no_leaf_show_nothing() -> None:
    rows = right_rows("eight", np.random.default_rng(0))
    for exporter in ("collector", "each server"):
        seen = [(row.endpoint, "10.99.0.1", row.server if exporter == "each server" else exporter, 1e9) for row in rows]
        assert check_topology(rows, traffic_table(seen)) == []


def test_lost_records_show_nothing() -> None:
    rows = right_rows("eight", np.random.default_rng(0))
    seen = [(row.endpoint, "10.99.0.1", row.leaf, 6e8 if place % 3 else 1e9) for place, row in enumerate(rows)]
    seen += [(row.endpoint, "10.99.0.1", "spine", 1e9) for row in rows[:8]]
    assert check_topology(rows, traffic_table(seen)) == []


def test_tenants_that_train_together_are_one_problem() -> None:
    rows = right_rows("eight-one-pod", np.random.default_rng(0))
    traffic = traffic_of(rows, np.random.default_rng(3))
    half = len(rows) // 2
    problem = one_problem(
        [replace(row, tenant="other" if n < half else row.tenant) for n, row in enumerate(rows)], traffic
    )
    assert problem.reason.endswith("exchange traffic as in one job")
    assert problem.mend == "give both the tenant of the job"


def test_two_tenants_of_similar_names_may_share_a_server() -> None:
    rows = right_rows("eight-one-pod", np.random.default_rng(0))
    assert check_topology([replace(row, tenant=f"team-{'ab'[row.gpu > 5]}") for row in rows]) == []


def test_rows_that_hold_at_a_time_or_held_last() -> None:
    row = right_rows("single", np.random.default_rng(0))[0]
    past, now = replace(row, valid_to_ns=100), replace(row, valid_from_ns=100, valid_to_ns=200)
    assert rows_at([past, now], 99) == ([0], -(2**63))
    assert rows_at([past, now], 100) == ([1], 100)
    assert rows_at([past, now], 500) == ([1], 100)
    assert rows_at([], 0) == ([], -(2**63))

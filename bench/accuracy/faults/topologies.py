"""Topologies of simulated clusters, each right and with single mistakes: whether the check finds their lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from prism_ch.ingest.topology_check import check_topology
from prism_ch.simulate import generate
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from prism_ch.store.topology import EndpointRow

Rows = list[EndpointRow]
#: Makes a mistake at a row; returns the rows and those at which it is, or None where it would be none.
Mistake = Callable[[Rows, int, np.random.Generator], tuple[Rows, set[int]] | None]

#: Families whose clusters differ: NICs a server, leaves, tenants, storage, and how jobs lie.
_FAMILIES = (
    "pipeline-1f1b",
    "ddp-fused",
    "four-nics",
    "leaf-spine",
    "experts",
    "fragmented",
    "equal-steps",
    "shared-servers",
    "storage-hub",
    "zero3",
)
_EACH = 10
_DURATION_S = 20.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A simulated cluster, in whose topology mistakes are made."""

    family: str
    seed: int

    @property
    def name(self) -> str:
        """The cluster's name in progress and errors."""
        return f"topology of {self.family}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Mistakes:
    """Topologies with one mistake, those of them whose line is found, right ones, and the problems of these.

    `missed` are the kinds of the mistakes that are not found.
    """

    made: int = 0
    found: int = 0
    right: int = 0
    false: int = 0
    missed: tuple[str, ...] = ()

    def __add__(self, other: Mistakes) -> Mistakes:
        return Mistakes(
            self.made + other.made,
            self.found + other.found,
            self.right + other.right,
            self.false + other.false,
            self.missed + other.missed,
        )


#: Takes the place of a cluster that failed.
FAILED_CLUSTER = Mistakes(made=_EACH, right=1, false=1, missed=("failed",) * _EACH)


def all_clusters(seeds: range) -> list[Cluster]:
    """List fifty clusters: five seeds of each family, from the first one on."""
    return [Cluster(family, seed) for family in _FAMILIES for seed in range(seeds.start, seeds.start + 5)]


def work(cluster: Cluster) -> Mistakes:
    """Check a cluster's right topology, and ten times with a mistake."""
    scenario = FAMILIES[cluster.family](cluster.seed)
    observation = CONDITIONS["clean" if cluster.seed % 2 else "every-switch"]
    duration_s = min(scenario.duration_s, max(_DURATION_S, scenario.duration_s / 10))
    made = generate(replace(scenario, duration_s=duration_s, observation=observation, phases=False))
    rows = _rows(made.topology)
    traffic = _traffic(made.flows)
    senders = set(traffic["src_addr"].to_pylist())
    used = [place for place, row in enumerate(rows) if row.endpoint in senders and row.tenant]
    found = Mistakes(right=1, false=len(check_topology(rows, traffic)))
    rng = np.random.default_rng([cluster.seed, 9])
    kinds = list(MISTAKES)
    while found.made < _EACH:
        name = kinds[found.made % len(kinds)]
        mistaken = MISTAKES[name](rows, used[int(rng.integers(0, len(used)))], rng)
        if mistaken is None:
            kinds.remove(name)
            continue
        told = any(problem.row in mistaken[1] for problem in check_topology(mistaken[0], traffic))
        found += Mistakes(made=1, found=int(told), missed=() if told else (f"{name} in {cluster.name}",))
    return found


def _rows(topology: pa.Table) -> Rows:
    """Return the rows of a topology as a file has them."""
    held = ((row["endpoint"], row["server"], row["gpu"], str(row["rail"]), row) for row in topology.to_pylist())
    return [
        EndpointRow(endpoint, None, None, server, gpu, rail, row["leaf"], row["pod"], row["tenant"])
        for endpoint, server, gpu, rail, row in held
    ]


def _traffic(flows: pa.Table) -> pa.Table:
    """Return the bytes of each pair by exporter, as the database gives them."""
    renamed = flows.select(["src_addr", "dst_addr", "sampler_address", "bytes"])
    renamed = renamed.rename_columns(["src_addr", "dst_addr", "exporter", "bytes"])
    summed = renamed.group_by(["src_addr", "dst_addr", "exporter"]).aggregate([("bytes", "sum")])
    summed = summed.rename_columns(["src_addr", "dst_addr", "exporter", "bytes"])
    return summed.sort_by([(name, "ascending") for name in ("src_addr", "dst_addr", "exporter")])


def _gpu_twice(rows: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, set[int]] | None:
    mine = rows[place]
    others = [row.gpu for row in rows if row.server == mine.server and row.gpu != mine.gpu]
    return _changed(rows, place, gpu=others[int(rng.integers(0, len(others)))]) if others else None


def _strange_leaf(rows: Rows, place: int, _rng: np.random.Generator) -> tuple[Rows, set[int]]:
    return _changed(rows, place, leaf="172.30.9.9")


def _misspelt_tenant(rows: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, set[int]]:
    """Leave a letter of a tenant's name out, or write it twice."""
    name = rows[place].tenant
    at = int(rng.integers(0, len(name) - 3))
    wrong = (name[:at] + name[at + 1 :], name[:at] + name[at] + name[at:])
    return _changed(rows, place, tenant=wrong[int(rng.integers(0, 2))])


def _strange_rail(rows: Rows, place: int, _rng: np.random.Generator) -> tuple[Rows, set[int]]:
    return _changed(rows, place, rail="9")


def _exchanged_servers(rows: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, set[int]] | None:
    """Exchange the servers of two NICs of different rails."""
    mine = rows[place]
    nics = {row.server: 0 for row in rows}
    for row in rows:
        nics[row.server] += 1
    others = [
        n
        for n, row in enumerate(rows)
        if row.server != mine.server and row.rail != mine.rail and nics[row.server] == nics[mine.server]
    ]
    if not others:
        return None
    other = others[int(rng.integers(0, len(others)))]
    changed, _ = _changed(rows, place, server=rows[other].server)
    return _changed(changed, other, server=mine.server)[0], {place, other}


def _missing_nic(rows: Rows, place: int, _rng: np.random.Generator) -> tuple[Rows, set[int]] | None:
    left = rows[:place] + rows[place + 1 :]
    places = {n for n, row in enumerate(left) if row.server == rows[place].server}
    return (left, places) if places else None


def _changed(rows: Rows, place: int, **fields: object) -> tuple[Rows, set[int]]:
    row = replace(rows[place], **fields)  # type: ignore[arg-type]
    return [*rows[:place], row, *rows[place + 1 :]], {place}


#: Mistakes that people make in a topology.
MISTAKES: dict[str, Mistake] = {
    "a GPU index twice": _gpu_twice,
    "a leaf that no exporter is": _strange_leaf,
    "a misspelt tenant": _misspelt_tenant,
    "a rail that no other server has": _strange_rail,
    "servers of two NICs exchanged": _exchanged_servers,
    "a NIC missing": _missing_nic,
}

"""Checks a topology against itself and against traffic: each mistake, and how to mend it.

Nothing here knows how a cluster should look. A line is wrong where nearly all others agree on something that it breaks;
where they do not agree, nothing is reported.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from prism_ch.ingest.topology_evidence import (
    NEARLY_ALL,
    PairTraffic,
    find_crossings,
    find_homes,
    pair_traffic,
)
from prism_ch.model.columns import Bool, Int64
from prism_ch.store.client import Store
from prism_ch.store.migrate import require_schema
from prism_ch.store.statements import statement
from prism_ch.store.topology import EndpointRow

#: How much of the traffic is looked at, up to its end: many steps, also of jobs whose steps take minutes.
_TRAFFIC_NS = 3600 * 10**9
_MINUTE_NS = 60 * 10**9


@dataclass(frozen=True, slots=True)
class TopologyProblem:
    """One mistake: the row at which it shows, counted from 0, what is wrong, and how to mend it."""

    row: int
    reason: str
    mend: str


@dataclass(frozen=True, slots=True)
class TopologyCheck:
    """The problems of a topology, the rows that were checked, and the pairs of endpoints whose traffic was seen."""

    problems: list[TopologyProblem]
    endpoints: int
    pairs: int


def examine_topology(rows: Sequence[EndpointRow], store: Store | None) -> TopologyCheck:
    """Check the rows that hold at the end of the traffic, against themselves and it.

    Without a store, or a schema or flows in it, the rows that hold now are checked against themselves.
    """
    until_ns = 0
    if store is not None and store.scalar(statement("has_migrations")):
        require_schema(store)
        until_ns = int(store.scalar(statement("topology_traffic_end")))
    places, since_ns = rows_at(rows, until_ns or time.time_ns())
    held, traffic = [rows[place] for place in places], None
    if store is not None and until_ns:
        # Traffic from before a row held shows another topology.
        from_ns = max(until_ns - _TRAFFIC_NS, -(-since_ns // _MINUTE_NS) * _MINUTE_NS)
        traffic = store.arrow(statement("topology_traffic"), {"from_ns": from_ns, "until_ns": until_ns})
    found = [replace(problem, row=places[problem.row]) for problem in check_topology(held, traffic)]
    known = {row.endpoint for row in held}
    ends = (
        [] if traffic is None else zip(*(traffic[name].to_pylist() for name in ("src_addr", "dst_addr")), strict=True)
    )
    pairs = {frozenset(pair) for pair in ends if known.issuperset(pair)}
    return TopologyCheck(found, len(known), len(pairs))


def check_topology(rows: Sequence[EndpointRow], traffic: pa.Table | None = None) -> list[TopologyProblem]:
    """Find the mistakes in rows that hold at one time, at most one a row.

    1. In the file: GPU indices, rails and numbers of endpoints of each server, and tenants that are misspelt.
    2. In `traffic` (src_addr, dst_addr, exporter, bytes): leaves, rails, and tenants that train with one another.

    Returns the problems by row; of several at one row the first of this order.
    """
    servers = _Servers(rows)
    checks = (_check_gpus, _check_rails, _check_sizes, _check_tenants)
    found = [problem for check in checks for problem in check(rows, servers)]
    if traffic is not None and len(traffic):
        seen = pair_traffic([row.endpoint for row in rows], traffic)
        found += [*_check_leaves(rows, seen), *_check_peers(rows, seen), *_check_tenant_traffic(rows, seen)]
    first: dict[int, TopologyProblem] = {}
    for problem in found:
        first.setdefault(problem.row, problem)
    return [first[row] for row in sorted(first)]


def rows_at(rows: Sequence[EndpointRow], at_ns: int) -> tuple[list[int], int]:
    """Pick the rows that hold at a time; if none does, those that hold last.

    Returns their places, and since when all of them hold, nanoseconds since the epoch.
    """
    held = [place for place, row in enumerate(rows) if row.starts_ns <= at_ns < row.ends_ns]
    if not held and rows:
        last_ns = max(min(row.ends_ns - 1, max(row.starts_ns, at_ns)) for row in rows)
        held = [place for place, row in enumerate(rows) if row.starts_ns <= last_ns < row.ends_ns]
    return held, max((rows[place].starts_ns for place in held), default=-(2**63))


class _Servers:
    """The rows of each server, and the servers of its pod and tenant: those of most of its rows."""

    def __init__(self, rows: Sequence[EndpointRow]) -> None:
        self.places: dict[str, list[int]] = defaultdict(list)
        for place, row in enumerate(rows):
            self.places[row.server].append(place)
        self._all = list(self.places)
        self.tenant = {server: _commonest(rows[place].tenant for place in held) for server, held in self.places.items()}
        self.pod = {server: _commonest(rows[place].pod for place in held) for server, held in self.places.items()}
        self._of_pod: dict[str, list[str]] = defaultdict(list)
        self._of_tenant: dict[tuple[str, str], list[str]] = defaultdict(list)
        for server in self.places:
            self._of_pod[self.pod[server]].append(server)
            self._of_tenant[self.pod[server], self.tenant[server]].append(server)

    def of_pod(self, server: str) -> list[str]:
        """List the servers of the same pod, this one among them."""
        return self._of_pod[self.pod[server]]

    def of_tenant(self, server: str) -> list[str]:
        """List the servers of the same pod and tenant.

        If they are fewer than three, those of the same pod; if these are two, all. A server that is alone in its pod is
        like no other.
        """
        mine, pod = self._of_tenant[self.pod[server], self.tenant[server]], self.of_pod(server)
        return next((group for group in (mine, pod) if len(group) > 2), self._all if len(pod) > 1 else pod)


def _commonest(values: Iterator[str]) -> str:
    return Counter(values).most_common(1)[0][0]


def _check_gpus(rows: Sequence[EndpointRow], servers: _Servers) -> Iterator[TopologyProblem]:
    """Find endpoints of one server with the same GPU index.

    Several NICs a GPU are a layout if all GPUs of the server have as many, or nearly all other servers of its size have
    the same, in its pod or anywhere.
    """
    places = servers.places
    counts = {server: Counter(rows[place].gpu for place in held) for server, held in places.items()}
    layouts = {server: tuple(sorted(count.values())) for server, count in counts.items()}
    of_size: dict[tuple[str | None, int], list[tuple[int, ...]]] = defaultdict(list)
    for server, layout in layouts.items():
        for pod in (servers.pod[server], None):
            of_size[pod, sum(layout)].append(layout)
    pairs = Counter((row.gpu, row.rail) for row in rows)
    for server, count in counts.items():
        layout = layouts[server]
        is_even = layout[0] == layout[-1] and len(layout) > 1
        if layout[-1] == 1 or is_even:
            continue
        groups = [of_size[pod, sum(layout)] for pod in (servers.pod[server], None)]
        if any(len(group) > 1 and group.count(layout) - 1 >= NEARLY_ALL * (len(group) - 1) for group in groups):
            continue
        like = [other for other in groups[1] if other != layout]
        if not like:
            continue
        [(usual, _)] = Counter(number for other in like for number in other).most_common(1)
        for gpu in (gpu for gpu, number in count.items() if number > usual):
            held = [place for place in places[server] if rows[place].gpu == gpu]
            middle = float(np.median(places[server]))
            # The wrong line has a GPU index and rail that go together nowhere else, or stands apart from its server's.
            odd = min(held, key=lambda place: (pairs[gpu, rows[place].rail], -abs(place - middle), -place))
            others = ", ".join(rows[place].endpoint for place in held if place != odd)
            reason = f"{rows[odd].endpoint} has GPU {gpu} of server {server}, as {others} has"
            yield TopologyProblem(odd, reason, "give it its own gpu, or the server that it sits in")


def _check_rails(rows: Sequence[EndpointRow], servers: _Servers) -> Iterator[TopologyProblem]:
    """Find rails that only one server has.

    The server lacks a rail that nearly all others have; its other rails are as theirs.
    """
    rails = {server: {rows[place].rail for place in held} for server, held in servers.places.items()}
    holders = Counter(rail for held in rails.values() for rail in held)
    strange = {server: {rail for rail in held if rail and holders[rail] == 1} for server, held in rails.items()}
    if sum(map(bool, strange.values())) > max(2, (1 - NEARLY_ALL) * len(rails)):
        return
    for server, mine in rails.items():
        odd = strange[server]
        if not odd or (len(mine) > 1 and len(odd) * 2 > len(mine)):
            continue
        # A server of one rail is compared with its pod only: pods may name their rails as they like.
        pod = servers.of_pod(server)
        others = [other for other in (pod if len(pod) > 2 or len(mine) == 1 else rails) if other != server]
        common = Counter(rail for other in others for rail in rails[other] if rail)
        usual = {rail for rail, number in common.items() if number >= NEARLY_ALL * len(others)}
        is_proof = len(others) > 1 or (_is_numbered(usual) and not _is_numbered(mine))
        missing = usual - mine
        if not is_proof or not mine - odd <= usual or len(missing) < len(odd):
            continue
        for place in servers.places[server]:
            if rows[place].rail in odd:
                reason = f"{rows[place].endpoint} is on rail {rows[place].rail}, which no other server has"
                lack = ", ".join(sorted(missing, key=lambda rail: (len(rail), rail)))
                yield TopologyProblem(place, reason, f"server {server} lacks rail {lack}: see whether it is that one")


def _is_numbered(rails: set[str]) -> bool:
    """Check whether rails are the whole numbers from 0 or 1, without a gap."""
    numbers = sorted(int(rail) for rail in rails if rail.isdecimal())
    return len(numbers) == len(rails) > 0 and numbers[0] <= 1 and numbers[-1] - numbers[0] + 1 == len(numbers)


def _check_sizes(rows: Sequence[EndpointRow], servers: _Servers) -> Iterator[TopologyProblem]:
    """Find servers with one endpoint more or fewer than nearly all like them have."""
    sizes = {server: len(held) for server, held in servers.places.items()}
    counted: dict[int, Counter[int]] = {}
    nics: dict[int, Counter[tuple[int, str]]] = {}
    for server, size in sizes.items():
        alike = servers.of_tenant(server)
        if id(alike) not in counted:
            counted[id(alike)] = Counter(sizes[other] for other in alike)
        counts = counted[id(alike)]
        usual, number = max(counts.items(), key=lambda each: (each[1] - (each[0] == size), each[0]))
        if len(alike) < 3 or abs(size - usual) != 1 or number < NEARLY_ALL * (len(alike) - 1):
            continue
        if id(alike) not in nics:
            nics[id(alike)] = Counter((rows[p].gpu, rows[p].rail) for other in alike for p in servers.places[other])
        held, others = servers.places[server], len(alike) - 1
        mine = Counter((rows[place].gpu, rows[place].rail) for place in held)
        usual_nics = {nic for nic, times in nics[id(alike)].items() if times - mine[nic] >= NEARLY_ALL * others}
        odd = [place for place in held if (rows[place].gpu, rows[place].rail) not in usual_nics]
        names = [f"GPU {gpu} on rail {rail or '?'}" for gpu, rail in sorted(usual_nics) if (gpu, rail) not in mine]
        where = f"where {number} of {others} others like it have {usual}"
        reason = f"server {server} has {size} endpoint{'s' * (size != 1)} {where}"
        if size < usual:
            what = f"add the endpoint of {' or '.join(names)}" if names else "add the endpoint that is missing"
            yield TopologyProblem(held[0], reason, what)
        else:
            place = odd[-1] if odd else held[-1]
            yield TopologyProblem(place, reason, f"see whether {rows[place].endpoint} sits in it")


def _check_tenants(rows: Sequence[EndpointRow], servers: _Servers) -> Iterator[TopologyProblem]:
    """Find tenants whose names are misspelt.

    They have few endpoints, all on servers of a tenant whose name is one letter apart.
    """
    size = Counter(row.tenant for row in rows)
    places: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        places[row.tenant].append(place)
    for tenant, held in places.items():
        owners = {servers.tenant[rows[place].server] for place in held}
        if not tenant or len(owners) != 1:
            continue
        [owner] = owners
        if not owner or owner == tenant or not _one_letter_apart(tenant, owner):
            continue
        is_part = all(
            sum(rows[p].tenant == owner for p in servers.places[rows[place].server]) * 2
            > len(servers.places[rows[place].server])
            for place in held
        )
        if is_part and len(held) <= max(1, (1 - NEARLY_ALL) * size[owner]):
            for place in held:
                reason = (
                    f"tenant {tenant} of {rows[place].endpoint} has {len(held)} of the endpoints of {owner}'s servers"
                )
                yield TopologyProblem(place, reason, f"write {owner}, if that is meant")


def _one_letter_apart(one: str, other: str) -> bool:
    """Check whether a letter less, more, changed, or two exchanged make one name the other."""
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) > 1:
        return False
    first = next((n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[first:] == long[first + 1 :]
    swapped = short[first + 1 : first + 2] + short[first : first + 1] + short[first + 2 :]
    return short[first + 1 :] == long[first + 1 :] or swapped == long[first:]


def _check_leaves(rows: Sequence[EndpointRow], seen: PairTraffic) -> Iterator[TopologyProblem]:
    """Find endpoints that another leaf's exporter sees, and leaves without an exporter."""
    leaves, leaf = _codes([row.leaf for row in rows])
    homes = find_homes(leaf, leaves, seen)
    without: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(homes.strays).tolist():
        endpoint, exporter = rows[place].endpoint, seen.exporters[homes.exporter[place]]
        home = homes.leaf_of[homes.exporter[place]]
        fitting = f"write {leaves[home]}" if home >= 0 else f"write the leaf whose exporter is {exporter}"
        if not homes.has_exporter[leaf[place]]:
            without[int(leaf[place])].append(place)
            continue
        reason = f"what {endpoint} sends is first seen by {exporter}, not by its leaf {rows[place].leaf}"
        yield TopologyProblem(place, reason, f"{fitting}, or the server that it sits in")
    for code, held in without.items():
        exporter = seen.exporters[homes.exporter[held[0]]]
        home = homes.leaf_of[homes.exporter[held[0]]]
        fitting = leaves[home] if home >= 0 and home != code else exporter
        reason = f"no exporter is leaf {leaves[code]}: what {rows[held[0]].endpoint} sends is first seen by {exporter}"
        more = f", here and on {len(held) - 1} more" if len(held) > 1 else ""
        yield TopologyProblem(held[0], reason, f"write {fitting}{more}, or let the switch export")


def _check_peers(rows: Sequence[EndpointRow], seen: PairTraffic) -> Iterator[TopologyProblem]:
    """Find endpoints whose peers are on another rail.

    Nearly all other endpoints keep to their rails.
    """
    rails, rail = _codes([row.rail for row in rows])
    _, server = _codes([row.server for row in rows])
    on_rails = _several(server, rail)
    crossings = find_crossings(np.where(on_rails, rail, -1), server, seen)
    if not crossings.is_rule or len({row.rail for row in rows}) < 2:
        return
    for place, other in sorted(crossings.misfits.items()):
        reason = f"{rows[place].endpoint} is on rail {rows[place].rail}, but its peers are on rail {rails[other]}"
        yield TopologyProblem(place, reason, "see whether its line and that of another NIC were exchanged")


def _check_tenant_traffic(rows: Sequence[EndpointRow], seen: PairTraffic) -> Iterator[TopologyProblem]:
    """Find tenants that train with one another: exchange a share of what both ends carry."""
    tenants, tenant = _codes([row.tenant for row in rows])
    _, server = _codes([row.server for row in rows])
    crossings = find_crossings(tenant, server, seen)
    misfits = crossings.misfits if crossings.is_rule else {}
    for place, other in sorted(misfits.items()):
        reason = f"{rows[place].endpoint} is of tenant {rows[place].tenant}, but its peers are of {tenants[other]}"
        yield TopologyProblem(place, reason, f"write {tenants[other]}, if that is meant")
    size = Counter(tenant.tolist())
    found: set[tuple[int, int]] = set()
    for one, other in crossings.pairs:
        if one in misfits or other in misfits:
            continue
        few, many = sorted((one, other), key=lambda place: (size[int(tenant[place])], place))
        key = (int(tenant[few]), int(tenant[many]))
        if key not in found:
            found.add(key)
            ends = f"{rows[few].endpoint} of tenant {rows[few].tenant} and {rows[many].endpoint} of {rows[many].tenant}"
            yield TopologyProblem(few, f"{ends} exchange traffic as in one job", "give both the tenant of the job")


def _several(server: Int64, rail: Int64) -> Bool:
    """Mask the rows of servers that are on more than one rail, bool[rows]."""
    keys = np.unique(np.stack([server, rail])[:, rail >= 0], axis=1)
    return np.bincount(keys[0], minlength=int(server.max(initial=-1)) + 1)[server] > 1


def _codes(names: Sequence[str]) -> tuple[list[str], Int64]:
    """Return the distinct names in order, and the number of each, int64[n].

    The empty name is -1.
    """
    known = sorted(set(names) - {""})
    numbers = {name: number for number, name in enumerate(known)} | {"": -1}
    return known, np.array([numbers[name] for name in names], dtype=np.int64)

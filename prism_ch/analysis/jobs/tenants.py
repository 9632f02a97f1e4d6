"""Finds endpoints that train with another tenant's: a mistake in the topology, and no job of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.jobs.job_traffic import heavy_pairs
from prism_ch.analysis.observe.observe import Observed
from prism_ch.core.arrays import distinct
from prism_ch.model.columns import Int32
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


def with_right_tenants(seen: Observed, topology: Topology, params: RecogniseParams) -> tuple[Observed, Topology]:
    """Give endpoints the tenant that they train with, and note the listed one."""
    strays = find_strays(seen.bursts, seen.known.active, topology, params)
    if not strays:
        return seen, topology
    tenant = topology.tenant.copy()
    tenant[list(strays)] = list(strays.values())
    listed = {endpoint: topology.tenant_names[topology.tenant[endpoint]] for endpoint in strays}
    return replace(seen, strays=listed), replace(topology, tenant=tenant)


def find_strays(
    traffic: Traffic, known: Sequence[JobMemory], topology: Topology, params: RecogniseParams
) -> Mapping[int, int]:
    """Return the endpoints of a wrong tenant, with the one that they train with.

    Parameters: `known`, the jobs that are known to go on; what is a member stays one.

    1. Take the pairs that occur often and weigh enough, whosever they are.
    2. An endpoint strays if all with whom it exchanges such traffic are of one other tenant,
    3. and so are the others on its server, or its own tenant has no endpoint elsewhere.
    """
    heavy = heavy_pairs(traffic, topology, params)
    src, dst = traffic.pair_src[heavy], traffic.pair_dst[heavy]
    tenant, server = topology.tenant, topology.server
    crossing = distinct(np.concatenate([src, dst])[np.tile(tenant[src] != tenant[dst], 2)])
    working = distinct(np.concatenate([src, dst]))
    found: dict[int, int] = {}
    for endpoint in crossing.tolist():
        partners = np.concatenate([dst[src == endpoint], src[dst == endpoint]])
        others = np.unique(tenant[partners])
        if len(others) > 1 or others[0] == tenant[endpoint]:
            continue
        mates = working[(server[working] == server[endpoint]) & (working != endpoint)]
        elsewhere = (server[tenant == tenant[endpoint]] != server[endpoint]).any()
        if (len(mates) and (tenant[mates] == others[0]).all()) or not elsewhere:
            found[endpoint] = int(others[0])
    return _without_both(found, src, dst) | _of_known_jobs(known, topology)


def _without_both(found: Mapping[int, int], src: Int32, dst: Int32) -> dict[int, int]:
    """Leave out endpoints whose partners stray as well: then nobody knows whose mistake it is."""
    both = np.isin(src, list(found)) & np.isin(dst, list(found))
    unclear = set(np.concatenate([src[both], dst[both]]).tolist())
    return {endpoint: tenant for endpoint, tenant in found.items() if endpoint not in unclear}


def _of_known_jobs(known: Sequence[JobMemory], topology: Topology) -> dict[int, int]:
    """Return the members of known jobs that the topology gives to others."""
    number = {name: row for row, name in enumerate(topology.tenant_names)}
    return {
        endpoint: number[job.job.tenant]
        for job in known
        for endpoint in job.members.endpoint.tolist()
        if job.job.tenant in number and topology.tenant[endpoint] != number[job.job.tenant]
    }

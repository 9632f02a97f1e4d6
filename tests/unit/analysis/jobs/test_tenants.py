"""Tenants that the traffic shows to be wrong: one member of a job, and nobody who is really somebody else's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.jobs.tenants import find_strays
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from tests.sweeps import swept
from tests.unit.analysis.build import batch, every, job, ring, shaken, topology, traffic
from tests.unit.chain import work

PARAMS = Params().recognise
FLOWS = ring(range(6), every(1000, 20, 1000))


def tenants(names: str, gpus: int = 2) -> Topology:
    """Endpoints with one tenant each, `gpus` of them a server."""
    where = topology(len(names) // gpus, gpus)
    listed = tuple(sorted(set(names)))
    return replace(where, tenant=np.array([listed.index(name) for name in names], np.int32), tenant_names=listed)


def strays(where: Topology) -> Mapping[int, str]:
    across = [flow for flow in FLOWS if where.server[flow.src] != where.server[flow.dst]]
    jumps = ring([0, 2, 4], every(1000, 20, 1000)) + ring([1, 3, 5], every(1000, 20, 1000))
    found = find_strays(traffic([*across, *jumps]), (), where, PARAMS)
    return {endpoint: where.tenant_names[tenant] for endpoint, tenant in found.items()}


@pytest.mark.parametrize(
    "names, expected",
    [
        ("aaaaaa", {}),
        ("aabaaa", {2: "a"}),
        ("aabaaabb", {2: "a"}),
        ("aabbaa", {2: "a", 3: "a"}),
        ("aabbaabb", {}),
        ("aabbba", {}),
    ],
)
def test_endpoint_strays_if_all_around_it_are_of_another_tenant(names: str, expected: dict[int, str]) -> None:
    assert strays(tenants(names)) == expected


def test_mutual_partners_of_two_tenants_both_stay() -> None:
    where = tenants("ab", gpus=1)
    assert find_strays(traffic(ring([0, 1], every(1000, 20, 1000))), (), where, PARAMS) == {}


@pytest.mark.parametrize("window_s", [20, *swept(5)])
def test_member_of_another_tenant_is_kept_and_told_of(window_s: int) -> None:
    grid = ((0, 2), (1, 3), (4, 6), (5, 7))
    flows = batch(shaken(job(grid, 40), 1, ms=0.1))
    right = work(flows, tenants("aaaaaaaa"), window_s)
    found = work(flows, tenants("aaaaabaa"), window_s)
    assert found.only.last.job.job_id == right.only.last.job.job_id
    assert found.only.last.members.endpoint.tolist() == list(range(8))
    [told] = [one for one in found.only.findings.values() if one.kind == "imbalance"]
    assert (told.subject, told.severity, told.status) == ("10.0.102.1", "info", "open")
    assert "gives it to 'b'" in told.summary
    assert found.incidents == {}
    assert not [one for one in right.only.findings.values() if one.kind == "imbalance"]

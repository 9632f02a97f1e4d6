"""Foreign members: endpoints of a job that the topology gives to another tenant than all others."""

from __future__ import annotations

from prism_ch.analysis.diagnose.context import JobContext
from prism_ch.analysis.diagnose.findings import Extent, Measured, confidence_in, identity, make_finding
from prism_ch.model.finding import Finding


def find_foreign_members(context: JobContext) -> tuple[Finding, ...]:
    """Make a finding on each member of the newest attempt that strays; it costs nothing."""
    newest, topology = context.attempts[-1], context.topology
    division, place = newest.attempt.division, newest.place
    if division.steps == 0:
        return ()
    end_ns = division.job_end_ns()
    extent = Extent(place.first_step, place.first_step + division.steps - 1, int(end_ns[0]), int(end_ns[-1]))
    found = []
    for endpoint in sorted(context.seen.strays.keys() & set(division.endpoints.tolist())):
        address, listed = topology.endpoints[endpoint], context.seen.strays[endpoint]
        server, tenant = (
            topology.server_names[topology.server[endpoint]],
            topology.tenant_names[topology.tenant[endpoint]],
        )
        found.append(
            make_finding(
                "imbalance",
                ("endpoint", address),
                identity(place.job_id, "imbalance", address, place.first_step),
                extent,
                Measured(1.0, 0.0),
                "info",
                f"{address} ({server}, GPU {topology.gpu[endpoint]}) trains with this job of tenant {tenant!r} "
                f"only, though the topology gives it to {listed!r}: it counts to this job; correct topology.csv.",
                {"tenant": tenant, "tenant_in_topology": listed},
                confidence=confidence_in("endpoint"),
            )
        )
    return tuple(found)

"""How often a finding names the right place, by what it names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfidenceParams:
    """The share of findings whose place was right, by its type: evidence singles out some places better than others.

    Fitted as `python -m bench.accuracy.confidence` does, by Laplace's rule of succession, on 172 faults of seeds 63001
    to 63004, 81338 to 81340, 90017 and 90018: all of 15 endpoints, 15 servers, 19 switches, 10 stages and 4 spines were
    right, and 8 of 22 groups.
    """

    #: A GPU with its NIC.
    endpoint: float = 0.94
    #: A server that holds all endpoints that may be it.
    server: float = 0.94
    #: Two endpoints or switches, in one direction; too few are named to tell it from an endpoint.
    link: float = 0.9
    #: A leaf or spine.
    switch: float = 0.95
    #: What lies between the leaves, where no record names a switch there.
    spines: float = 0.83
    #: A data-parallel group as slow as one of its links: often the cause lies above it.
    group: float = 0.38
    #: A stage of a pipeline.
    stage: float = 0.92
    #: An exporter that is silent.
    exporter: float = 0.95
    #: A job that stands still as a whole.
    job: float = 0.95

"""How often a finding names the right place, by what it names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfidenceParams:
    """The share of findings whose place was right, by its type: evidence singles out some places better than others.

    Fitted as `python -m bench.accuracy.confidence` does, by Laplace's rule of succession, on 350 alarms of faults of
    seeds 71100 to 71117, 71120 to 71123 and 71160 to 71163: all of 73 endpoints, 43 switches, 36 stages and 20 spines
    were right, and 128 of 130 servers. Of groups that hold all that may be it 50 of 81 were, under faults of seeds
    11435 to 11454 and 25040 to 25059, and 47 of 76 in earlier versions; of 146 that a single step shows 143 were, under
    faults of those seeds and of 30199 to 30210.
    """

    #: A GPU with its NIC.
    endpoint: float = 0.99
    #: A server that holds all endpoints that may be it.
    server: float = 0.98
    #: Two endpoints or switches, in one direction; too few are named to tell it from an endpoint.
    link: float = 0.9
    #: A leaf or spine.
    switch: float = 0.98
    #: What lies between the leaves, where no record names a switch there.
    spines: float = 0.95
    #: A data-parallel group as slow as one of its links: often the cause is a switch that its members share.
    group: float = 0.62
    #: A stage of a pipeline.
    stage: float = 0.97
    #: An exporter that is silent.
    exporter: float = 0.95
    #: A job that stands still as a whole.
    job: float = 0.95
    #: By what these are multiplied where a single slow step shows the place: it may have been a hiccup.
    single_step: float = 0.99

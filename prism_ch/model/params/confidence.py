"""How often a finding names the right place, by what it names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfidenceParams:
    """The share of findings whose place was right, by its type: evidence singles out some places better than others.

    Fitted as `python -m bench.accuracy.confidence` does, by Laplace's rule of succession, on 350 alarms of faults of
    seeds 71100 to 71117, 71120 to 71123 and 71160 to 71163: all of 73 endpoints, 43 switches, 36 stages and 20 spines
    were right, and 128 of 130 servers. Of groups that hold all that may be it 58 of 69 were, of later versions, under
    faults of seeds 26172 to 26176, 48495 to 48500, 32119 to 32124, 18920 to 18923 and 30199 to 30210; 47 of 76 in
    earlier ones.
    `single_step` is from 29 alarms under faults of seeds 6703 to 6708 and 27407 to 27411, which are right, and two
    hiccups of seeds 23152 and 23156 that are not told apart.
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
    #: A data-parallel group as slow as one of its links: often the cause lies above it.
    group: float = 0.83
    #: A stage of a pipeline.
    stage: float = 0.97
    #: An exporter that is silent.
    exporter: float = 0.95
    #: A job that stands still as a whole.
    job: float = 0.95
    #: By what these are multiplied where a single slow step shows the place: it may have been a hiccup.
    single_step: float = 0.93

"""How often a finding names the right place, by what it names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfidenceParams:
    """The share of findings whose place was right, by its type: evidence singles out some places better than others.

    Fitted as `python -m bench.accuracy.confidence --first-seed 71100 --seeds 12` does, by Laplace's rule of succession,
    on 172 alarms: all of 33 endpoints, 24 switches, 19 stages and 11 spines were right, 55 of 57 servers, and 15 of 28
    groups that hold all that may be it.
    """

    #: A GPU with its NIC.
    endpoint: float = 0.97
    #: A server that holds all endpoints that may be it.
    server: float = 0.95
    #: Two endpoints or switches, in one direction; too few are named to tell it from an endpoint.
    link: float = 0.9
    #: A leaf or spine.
    switch: float = 0.96
    #: What lies between the leaves, where no record names a switch there.
    spines: float = 0.92
    #: A data-parallel group as slow as one of its links: often the cause lies above it.
    group: float = 0.53
    #: A stage of a pipeline.
    stage: float = 0.95
    #: An exporter that is silent.
    exporter: float = 0.95
    #: A job that stands still as a whole.
    job: float = 0.95

"""Recognise: which endpoints train one model together, and since when (LLMPrism, section IV-A).

1. Pairs that recur and carry a fair share of their endpoints' payload, inside one tenant, are edges.
2. Disjoint sets over the edges give components; tensor-parallel traffic never leaves a server, so a rail-optimised
   job shows as one component a rail.
3. A component whose pairs are exchanged for others, all at once, was stopped and begun anew: each part is a life.
4. Components on much the same servers (overlap of their sets) whose activity rises and falls together are one job.
5. So are those on much the same servers whose steps keep their distance, once these are known.
6. A job that shares half its endpoints with a known one of its tenant, at one time with it, continues it.
"""

from __future__ import annotations

from collections.abc import Sequence

from prism_ch.analysis.jobs.attempts import find_attempts
from prism_ch.analysis.jobs.identity import identify_jobs
from prism_ch.analysis.jobs.job_traffic import JobTraffic
from prism_ch.analysis.jobs.rails import merge_rails
from prism_ch.model.job import RecognisedJob
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology


def recognise(
    traffic: JobTraffic, known: Sequence[JobMemory], topology: Topology, params: RecogniseParams
) -> list[RecognisedJob]:
    """Find the attempts of jobs in a span of traffic, those with the most endpoints first.

    Parameters: `known`, the jobs of earlier windows that may have moved something in it. Endpoints without a recurring
    partner are in no job. A job that was stopped and begun anew in the span is listed once an attempt: whether the
    later one is the same job, only its steps can tell.
    """
    edge = ~traffic.coarse | traffic.merged
    attempts = find_attempts(traffic.bursts, edge, traffic.merged, topology, params)
    if not len(attempts):
        return []
    return identify_jobs(merge_rails(attempts, topology, known, params), topology, known, params)

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

from prism_ch.model.columns import Bool
from prism_ch.model.jobset import RecognisedJob
from prism_ch.model.params import RecogniseParams
from prism_ch.model.result import JobState
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.stages.recognise.edges import recurring_pairs
from prism_ch.stages.recognise.identity import identify_jobs
from prism_ch.stages.recognise.lives import find_lives
from prism_ch.stages.recognise.lockstep import join_lockstep
from prism_ch.stages.recognise.rails import merge_rails

__all__ = ["join_lockstep", "recognise", "recurring_pairs"]


def recognise(
    traffic: Traffic, edge: Bool, merged: Bool, topology: Topology, known: Sequence[JobState], params: RecogniseParams
) -> list[RecognisedJob]:
    """Find the jobs in a span of traffic, those with the most endpoints first.

    Parameters: `traffic`, the bursts of the span; `edge` bool[pairs], those that may carry the steady traffic of a job,
    and `merged` bool[pairs], those of them that do so in records that run on over many steps; `topology`, whose rows
    the traffic names; `known`, the jobs of earlier windows. Endpoints without a recurring partner are in no job.
    A job that was stopped and begun anew in the span is listed once a life: whether the later one is the same job,
    only its steps can tell.
    """
    lives = find_lives(traffic, edge, merged, topology, params)
    if not len(lives):
        return []
    return identify_jobs(merge_rails(lives, topology, known, params), topology, known, params)

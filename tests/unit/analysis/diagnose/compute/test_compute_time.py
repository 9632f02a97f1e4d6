"""Unseen: of stages that pass on to one another inside servers the servers' work can be told."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import numpy as np
import pytest

from prism_ch.analysis.diagnose.compute.compute_time import measure_servers, passes_on_unseen
from prism_ch.model.params import DiagnoseParams
from tests.unit.analysis.build import Flow, division, every, ordered, pipeline, ring, shaken, topology, traffic, typed
from tests.unit.analysis.diagnose.compute.accused import accused

PARAMS = DiagnoseParams()
STEPS, SLOW = 24, range(16, 24)
#: Two servers of two GPUs, a stage each; a microbatch passes through all of them twice.
WHERE, STAGES = topology(2, 2), [0, 1, 2, 3, 0, 1, 2, 3]
LINKS = [(1, 2), (3, 0)]


def ends(slow_ms: float) -> list[float]:
    """When steps of a second end, of which the later ones are longer."""
    return list(accumulate(1000 + (slow_ms if step in SLOW else 0) for step in range(STEPS)))


def passes(slow: Mapping[int, float], slow_ms: float) -> list[Flow]:
    """What shows of it, some ranks being slow in the later steps."""
    starts = [0.0, *ends(slow_ms)[:-1]]
    flows = pipeline(STAGES, starts[: SLOW.start]) + pipeline(STAGES, starts[SLOW.start :], slow=slow)
    return shaken([flow for flow in flows if WHERE.server[flow.src] != WHERE.server[flow.dst]], 1, ms=0.2)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_server_of_a_slow_rank_works_longer(rank: int) -> None:
    seen = traffic(passes({rank: 1.3}, 150))
    kinds, divided = typed(seen, LINKS), division(range(4), ends(150))
    shown = (seen, kinds, divided, ordered(seen, kinds, divided, WHERE))
    assert passes_on_unseen(*shown, WHERE)
    work = measure_servers(*shown, WHERE, PARAMS.compute, {})
    assert work[0].seconds.shape == (4, STEPS)
    np.testing.assert_array_equal(work[0].seconds[::2], work[0].seconds[1::2])
    (one,) = accused(work, divided, WHERE)
    assert (one.subject, one.first_step) == (f"host-0{rank // 2}", SLOW.start)
    assert "GPUs 0, 1 of" in one.summary


def test_servers_that_work_as_before_are_not_spoken_of() -> None:
    seen = traffic(passes({}, 0))
    kinds, divided = typed(seen, LINKS), division(range(4), ends(0))
    work = measure_servers(seen, kinds, divided, ordered(seen, kinds, divided, WHERE), WHERE, PARAMS.compute, {})
    assert accused(work, divided, WHERE) == ()


def test_hops_are_seen_where_links_meet_or_replicas_reduce() -> None:
    starts, ends_ms = every(1000, STEPS), ends(0)
    side_by_side = [*pipeline([0, 2], starts), *pipeline([1, 3], starts)]
    crossed = [*pipeline([0, 3], starts), *pipeline([2, 1], starts), *ring([0, 2], ends_ms), *ring([1, 3], ends_ms)]
    for flows, ways in ((side_by_side, [(0, 2), (1, 3)]), (crossed, [(0, 3), (2, 1)])):
        seen = traffic(flows)
        kinds, divided = typed(seen, ways), division(range(4), ends_ms)
        assert not passes_on_unseen(seen, kinds, divided, ordered(seen, kinds, divided, WHERE), WHERE)

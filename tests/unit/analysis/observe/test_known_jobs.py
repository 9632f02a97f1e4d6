"""Known jobs: which of them a window looks at from their beginning."""

from __future__ import annotations

import pytest

from prism_ch.analysis.observe.known_jobs import examined_together
from prism_ch.model.params import ContinueParams
from tests.unit.analysis.build import known_job, topology

PARAMS = ContinueParams()
WHERE = topology(4, gpus=2)


@pytest.mark.parametrize(
    "others, settled",
    [([1, 3], False), ([3, 5], False), ([4, 6], True)],
    ids=["on its servers", "on those of one on its servers", "elsewhere"],
)
def test_young_job_is_looked_at_again_with_others_on_its_servers(others: list[int], settled: bool) -> None:
    doubled, beside = known_job("a", [0, 2], steps=32, examined=20), known_job("b", [1, 3], steps=20)
    other = known_job("c", others, steps=20)
    jobs = examined_together([other, beside, doubled], WHERE, PARAMS)
    assert [job.is_settled(PARAMS) for job in jobs] == [settled, False, False]
    assert jobs[2].attempt.examined == 20


def test_jobs_settled_for_good_stay_so() -> None:
    doubled, beside = known_job("a", [0, 2], steps=32, examined=20), known_job("b", [1, 3], steps=64)
    assert [job.is_settled(PARAMS) for job in examined_together([doubled, beside], WHERE, PARAMS)] == [False, True]


def test_nothing_changes_while_all_are_settled() -> None:
    jobs = (known_job("a", [0, 2], steps=20), known_job("b", [1, 3], steps=20))
    assert examined_together(jobs, WHERE, PARAMS) == jobs

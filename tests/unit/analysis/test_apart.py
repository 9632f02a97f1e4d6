"""Jobs are worked apart: what fails is noted once, and passed on from stage to stage."""

from __future__ import annotations

import pytest

from prism_ch.analysis.apart import Apart
from prism_ch.analysis.executor import LocalExecutor


def halved(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is\nodd")
    return number // 2


def added(numbers: tuple[int, ...], more: int) -> int:
    return sum(numbers) + more


@pytest.mark.parametrize("at_once", [1, 2])
def test_failure_passes_through_later_stages_when_held(at_once: int) -> None:
    apart = Apart(LocalExecutor(at_once))
    jobs = ["even", "odd", "odd too"]
    halves = apart.spread(halved, jobs, [(4,), (3,), (5,)])
    more = apart.share(100)
    assert apart.tell(added, jobs, [((one, one), more) for one in halves]) == [104, None, None]
    assert [one.job_id for one in apart.failures] == ["odd", "odd too"]
    assert apart.failures[0].reason.startswith("ValueError: 3 is odd (")
    assert "halved" in apart.failures[0].reason
    assert "odd" in apart
    assert "even" not in apart


def test_each_leaves_out_what_raises() -> None:
    apart = Apart()
    assert apart.each(halved, [8, 7, 6], str) == [4, None, 3]
    assert [one.job_id for one in apart.failures] == ["7"]


def test_first_failure_of_a_job_is_kept() -> None:
    apart = Apart()
    apart.each(halved, [7, 9], lambda _: "job")
    assert [one.reason[:15] for one in apart.failures] == ["ValueError: 7 i"]

"""What a job remembers of its newest life comes back as it was put down."""

from dataclasses import replace

from prism_ch.model.newest_life import NewestLife, UsualWork
from tests.unit.stages.build import known_job


def test_it_is_read_as_it_was_written() -> None:
    work = UsualWork(1_700_000_000_123_456_789, {"10.0.0.1": 0.25}, {"0>1<1": [-1, 0]})
    life = NewestLife(first_step=7, begin_ns=1_700_000_000_123_456_789, earlier_groups=3, usual_work=work)
    record = replace(known_job("job", [0]).job, profile=life.profile())
    assert NewestLife.of(record) == life


def test_a_job_that_remembers_nothing_has_but_one() -> None:
    assert NewestLife.of(known_job("job", [0]).job) == NewestLife(0, 0, 0)

"""Jobs drawn at large: a seed gives one job, all of them fit together, and the table counts each sort."""

from __future__ import annotations

from bench.accuracy.drawn import SORTS, Drawn, drawn_table
from bench.accuracy.tally import Tally
from tests.scoring import Counts

SEEDS = range(300)


def test_a_seed_gives_the_same_job() -> None:
    assert Drawn.of(17) == Drawn.of(17)
    assert Drawn.of(17).scenario(17) == Drawn.of(17).scenario(17)
    assert Drawn.of(17).name != Drawn.of(18).name


def test_jobs_of_every_sort_are_drawn() -> None:
    jobs = [Drawn.of(seed).scenario(seed).jobs[0] for seed in SEEDS]
    assert all(any(sort.holds(job) for job in jobs) for sort in SORTS)
    assert {len(job.attempts[0].gpus) for job in jobs} == {16, 24, 32, 48, 64}


def test_a_job_is_right_where_nothing_about_it_is_wrong() -> None:
    exact = Counts(1, 1, 1)
    right = Tally(scenarios=1, jobs=exact, pairs={"DP": Counts(4, 4, 4)}, dp_groups=exact, steps=40)
    outcomes = [
        right,
        Tally(scenarios=1, jobs=exact, pairs={"DP": Counts(4, 4, 3)}, dp_groups=exact, steps=40),
        Tally(scenarios=1, jobs=exact, pairs={"DP": Counts(4, 4, 4)}, dp_groups=exact, steps=40, extra=1),
        Tally(scenarios=1, errors=("failed",)),
    ]
    table = drawn_table([(Drawn.of(seed), outcome) for seed, outcome in enumerate(outcomes)])
    assert table.rows[0] == ("all", "4", "75%", "50%", "75%", "50%", "25%")
    assert len(table.rows) == len(SORTS)

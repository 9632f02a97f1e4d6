from dataclasses import replace

import pytest

from bench.accuracy.bounds import BOUNDS, Bound, judge
from bench.accuracy.rows import CLEAN, PLAIN, Row, all_rows
from bench.accuracy.tally import Tally, total
from bench.accuracy.work import Outcome
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from tests.scoring import Counts, JobScore

FOUND = JobScore(
    name="job",
    job_id="job-1",
    members_exact=True,
    pairs={"DP": Counts(8, 8, 8), "PP": Counts(4, 4, 4), "EP": Counts(2, 2, 2)},
    dp_groups=Counts(2, 2, 2),
    pp_chains=Counts(4, 4, 4),
    stages_exact=True,
    steps=1000,
    matched=1000,
    extra=0,
    timed=999,
    duration_error=0.0,
)


def tally(jobs: Counts = Counts(1, 1, 1), strangers: int = 0, **changed: object) -> Tally:  # noqa: B008 (frozen)
    """Count one scenario, perfect but for some changed values."""
    return Tally.of(Outcome((replace(FOUND, **changed),), jobs, strangers))  # type: ignore[arg-type]


def bound(what: str) -> Bound:
    """Find a promise by its words."""
    [found] = [bound for bound in BOUNDS if bound.what == what]
    return found


def test_rows_cover_families_thrice_and_all_conditions() -> None:
    rows = all_rows()
    assert len(rows) == len(set(rows)) == len({row.name for row in rows})
    assert {row.condition for row in rows if row.family == PLAIN} == set(CONDITIONS)
    for family in FAMILIES:
        assert {row.condition for row in rows if row.family == family} >= {CLEAN, "loss-0.5%", "all"}


def test_perfect_results_keep_every_bound() -> None:
    rated = [(row, tally()) for row in all_rows()]
    assert {judge(bound, rated).holds for bound in BOUNDS} == {True}
    assert {judge(bound, []).holds for bound in BOUNDS} == {None}


@pytest.mark.parametrize(
    "what, worse",
    [
        ("jobs exact, precision, no defect", tally(Counts(1, 2, 1))),
        ("jobs exact, recall, no defect", tally(Counts(2, 1, 1))),
        ("non-training endpoints in a job", tally(strangers=1)),
        ("PP pairs, precision, at most 0.5 % lost", tally(pairs={"PP": Counts(4, 5, 4)})),
        ("PP pairs, recall, at most 0.5 % lost", tally(pairs={"PP": Counts(4, 3, 3)})),
        ("DP pairs, precision", tally(pairs={"DP": Counts(8, 9, 8)})),
        ("DP pairs, recall", tally(pairs={"DP": Counts(8, 7, 7)})),
        ("EP pairs, recall", tally(pairs={"EP": Counts(2, 0, 0)})),
        ("DP groups exact", tally(dp_groups=Counts(2, 3, 2))),
        ("stage order exact, chains", tally(pp_chains=Counts(4, 4, 3))),
        ("steps missed + extra", tally(matched=998)),
        ("steps missed + extra", tally(extra=2)),
        ("step duration error, every row", tally(duration_error=0.0031)),
        ("scenarios that failed", Tally.of(Outcome(error="RuntimeError: no"))),
    ],
)
def test_worse_result_breaks_its_bound_and_names_its_row(what: str, worse: Tally) -> None:
    result = judge(bound(what), [(Row(PLAIN, CLEAN), worse)])
    assert result.holds is False
    assert result.failing == (PLAIN,)


def test_bad_row_breaks_only_bounds_that_hold_everywhere() -> None:
    good, bad = (Row("zero2", CLEAN), tally()), (Row(PLAIN, CLEAN), tally(matched=998))
    forgiving = judge(bound("steps missed + extra"), [good, good, bad])
    assert (forgiving.holds, forgiving.failing) == (True, (PLAIN,))
    assert forgiving.value == pytest.approx(2 / 3000)
    lost = (Row(PLAIN, CLEAN), tally(pairs={"PP": Counts(4000, 3999, 3999)}))
    assert judge(bound("PP pairs, recall, at most 0.5 % lost"), [good, lost]).holds is False


def test_steps_that_records_join_are_not_judged() -> None:
    merged = Row(PLAIN, "idle-timeout-15s")
    assert judge(bound("steps missed + extra"), [(merged, tally(matched=0))]).holds is None


def test_sharded_models_have_a_bound_of_their_own() -> None:
    some = tally(matched=997)
    assert judge(bound("steps missed + extra"), [(Row("zero3", CLEAN), some)]).holds is None
    assert judge(bound("steps missed + extra, ZeRO-3"), [(Row("zero3", CLEAN), some)]).holds is True


def test_durations_count_by_their_steps() -> None:
    both = total([tally(timed=1, duration_error=0.3), tally(timed=99, duration_error=0.1)])
    assert both.step_error() == pytest.approx(0.102)
    assert tally(timed=0, duration_error=float("inf")).step_error() is None


def test_a_spurious_group_counts_against_the_exact_ones() -> None:
    assert tally(dp_groups=Counts(2, 4, 2)).dp_groups_exact() == pytest.approx(0.5)
    assert tally(dp_groups=Counts(0, 0, 0)).dp_groups_exact() is None

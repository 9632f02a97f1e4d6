"""The bounds on the results, and whether a sweep keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bench.accuracy.rows import ALL, CLEAN, Row
from bench.accuracy.tally import Tally, total

Rated = tuple[Row, Tally]


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit on what `measure` gives over the rows that it `covers`.

    The limit is a least value if `at_least`, else a most value. It holds over all those rows together, and if
    `everywhere` also in each of them. `counted` values are numbers of things, others are shares.
    """

    what: str
    limit: float
    measure: Callable[[Tally], float | None]
    covers: Callable[[Row], bool]
    at_least: bool = True
    everywhere: bool = False
    counted: bool = False

    def keeps(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True, slots=True)
class BoundResult:
    """How a bound came out.

    `value` is measured over all rows that it covers, None if there is nothing to measure. `failing` names the rows
    beyond the bound.
    """

    bound: Bound
    value: float | None
    failing: tuple[str, ...]

    @property
    def holds(self) -> bool | None:
        """Whether the bound is kept; None if nothing was measured."""
        if self.value is None:
            return None
        return self.bound.keeps(self.value) and not (self.bound.everywhere and self.failing)


def judge(bound: Bound, rated: Sequence[Rated]) -> BoundResult:
    """Hold a bound against the rows of a sweep."""
    covered = [(row, tally) for row, tally in rated if row.has_separate_bursts and bound.covers(row)]
    by_row = [(row, bound.measure(tally)) for row, tally in covered]
    failing = tuple(row.name for row, value in by_row if value is not None and not bound.keeps(value))
    value = bound.measure(total(tally for _, tally in covered)) if covered else None
    return BoundResult(bound, value, failing)


def _pairs(
    kind: str, where: str, limit: float, covers: Callable[[Row], bool], *, everywhere: bool = False
) -> tuple[Bound, Bound]:
    """Bound the precision and the recall of the pairs of a kind."""
    precise, complete = partial(Tally.precision, kind=kind), partial(Tally.recall, kind=kind)
    return (
        Bound(f"{kind} pairs, precision{where}", limit, precise, covers, everywhere=everywhere),
        Bound(f"{kind} pairs, recall{where}", limit, complete, covers, everywhere=everywhere),
    )


def _any(_row: Row) -> bool:
    return True


def _without_defect(row: Row) -> bool:
    return row.condition in ("", CLEAN)


def _loses_little(row: Row) -> bool:
    """Return whether at most one record in two hundred is lost."""
    return row.observation.loss <= 0.005


def _lossy(row: Row) -> bool:
    return row.observation.loss >= 0.02


def _sharded(row: Row) -> bool:
    return row.family == "zero3"


def _noticed_late(row: Row) -> bool:
    return row.noticed_late


def _exactly_known(row: Row) -> bool:
    return not row.noticed_late


def _on_time(row: Row) -> bool:
    """Return whether exporters' clocks agree within 2 ms and the truth is exact."""
    return not row.noticed_late and row.observation.skew_s <= 0.002 and not row.observation.bad_exporter_s


def _none(what: str, count: Callable[[Tally], int]) -> Bound:
    """Bound a count to zero on every row."""
    return Bound(what, 0, count, _any, at_least=False, everywhere=True, counted=True)


BOUNDS = (
    Bound("jobs exact, precision, no defect", 1.0, Tally.jobs_precision, _without_defect, everywhere=True),
    Bound("jobs exact, recall, no defect", 1.0, Tally.jobs_recall, _without_defect, everywhere=True),
    Bound("jobs exact, precision, all defects", 0.99, Tally.jobs_precision, lambda row: row.condition == ALL),
    Bound("jobs exact, recall, all defects", 0.99, Tally.jobs_recall, lambda row: row.condition == ALL),
    _none("non-training endpoints in a job", lambda tally: tally.strangers),
    *_pairs("PP", ", at most 0.5 % lost", 1.0, _loses_little, everywhere=True),
    *_pairs("PP", ", 2 % lost", 0.995, _lossy),
    *_pairs("DP", "", 0.999, _any),
    *_pairs("EP", "", 0.99, _any),
    Bound("DP groups exact", 0.99, Tally.dp_groups_exact, _any),
    Bound("stage order exact, chains", 0.99, Tally.chains_exact, _any),
    Bound("steps missed + extra", 0.001, Tally.wrong_steps, lambda row: not _sharded(row), at_least=False),
    Bound("steps missed + extra, ZeRO-3", 0.005, Tally.wrong_steps, _sharded, at_least=False),
    Bound("step duration error, skew within 2 ms", 0.001, Tally.step_error, _on_time, at_least=False),
    Bound("step duration error, every row", 0.003, Tally.step_error, _exactly_known, at_least=False, everywhere=True),
    Bound(
        "step duration error, by a training loop's clock",
        0.01,
        Tally.step_error,
        _noticed_late,
        at_least=False,
        everywhere=True,
    ),
    _none("scenarios that failed", lambda tally: len(tally.errors)),
)

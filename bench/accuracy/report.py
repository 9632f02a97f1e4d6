"""The tables that a sweep prints: their headers and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from bench.accuracy.ablation import Measured
from bench.accuracy.bounds import BOUNDS, Bound, Rated, judge
from bench.accuracy.calibration import Claims, bins, expected_error
from bench.accuracy.layout import NOTHING, fault, share
from bench.accuracy.rows import ALL, CLEAN, LOSSY, Row
from bench.accuracy.sweep import Failed
from bench.accuracy.tally import Tally

Cells = tuple[str, ...]


class Table(NamedTuple):
    """A table whose rows are all known; the last column may be prose."""

    header: Cells
    rows: list[Cells]
    prose: bool = False


#: Columns of the table of rows, and how wide they are; the name's width is that of the longest name.
ROW_COLUMNS = {
    "jobs P": 6,
    "R": 6,
    "alien": 5,
    "DP P": 6,
    "R ": 6,
    "PP P": 6,
    "R  ": 6,
    "EP P": 6,
    "R   ": 6,
    "groups": 6,
    "order": 6,
    "steps": 6,
    "wrong": 7,
    "error": 7,
    "warn": 4,
}

#: What the columns are, printed below the table.
LEGEND = (
    "P, R: precision and recall, of jobs found with exactly their endpoints, and of directed pairs by kind.",
    "alien: endpoints of no job put into one. groups, order: DP groups and pipelines (in the order of their stages)",
    "found exactly, as a share of those that are true or found. wrong: steps missed and extra as a share of the true",
    "ones. error: mean relative error of the durations of steps. warn: findings of warning or above, for information.",
    "Shares are rounded down, errors up. *: records join the bursts of a step; such a row is shown and not judged.",
)


def row_cells(row: Row, tally: Tally) -> Cells:
    """Return a row's cells in the table of families and conditions."""
    return (
        _marked(row),
        share(tally.jobs_precision()),
        share(tally.jobs_recall()),
        str(tally.strangers),
        *(share(value) for kind in ("DP", "PP", "EP") for value in (tally.precision(kind), tally.recall(kind))),
        share(tally.dp_groups_exact()),
        share(tally.chains_exact()),
        str(tally.steps),
        fault(tally.wrong_steps()),
        fault(tally.step_error()),
        str(tally.warnings),
        *(f"{len(tally.errors)} of {tally.scenarios} failed, first with {error}" for error in tally.errors[:1]),
    )


def family_table(rated: Sequence[Rated]) -> Table:
    """Return a row for each family: clean records / 0.5 % lost / all defects."""
    header = ("family", "jobs exact", "pairs", "groups and order", "steps missed + extra", "step duration error")
    rows = []
    simulated = [(row, tally) for row, tally in rated if row.condition in (CLEAN, LOSSY, ALL)]
    for family, group in groupby(simulated, key=lambda item: item[0].family):
        tallies = [tally for _, tally in group]
        columns = (
            [share(_least(t.jobs_precision(), t.jobs_recall())) for t in tallies],
            [
                share(_least(*(of(kind) for kind in ("DP", "PP", "EP") for of in (t.precision, t.recall))))
                for t in tallies
            ],
            [share(_least(t.dp_groups_exact(), t.chains_exact())) for t in tallies],
            [fault(t.wrong_steps()) for t in tallies],
            [fault(t.step_error()) for t in tallies],
        )
        rows.append((family, *(" / ".join(cells) if len(set(cells)) > 1 else cells[0] for cells in columns)))
    return Table(header, rows)


def bounds_table(rated: Sequence[Rated], checks: Mapping[str, Sequence[tuple[str, bool]]]) -> Table:
    """Return a row for each bound, if there are rated rows, and each check.

    `checks` holds by name the scenarios, each with whether its results stayed the same.
    """
    header = ("what", "bound", "measured", "holds", "rows beyond it")
    rows: list[Cells] = []
    for result in (judge(bound, rated) for bound in BOUNDS if rated):
        bound, value = result.bound, result.value
        holds = {True: "yes", False: "no", None: NOTHING}[result.holds]
        shown = NOTHING if value is None else _value(bound, value)
        rows.append((bound.what, _limit(bound), shown, holds, ", ".join(result.failing)))
    for name, scenarios in checks.items():
        same = sum(kept for _, kept in scenarios)
        other = sorted({scenario for scenario, kept in scenarios if not kept})
        holds = "no" if other else "yes"
        rows.append((f"{name}: same results", "always", f"{same} of {len(scenarios)}", holds, ", ".join(other)))
    return Table(header, rows, prose=True)


def calibration_table(claims: Claims) -> Table:
    """Return a row for each bin of confidence, and the expected calibration error."""
    found = bins(claims)
    rows: list[Cells] = [
        (f"{part.low:g} to {part.high:g}", f"{part.pairs:,}", f"{part.confidence:.4f}", f"{part.right:.4f}")
        for part in found
    ]
    rows.append(("expected calibration error", f"{sum(p.pairs for p in found):,}", f"{expected_error(found):.4f}", ""))
    return Table(("confidence", "pairs", "mean confidence", "share right"), rows)


def ablation_table(found: Mapping[str, Sequence[Measured]]) -> Table:
    """Return a row for each method.

    Shares are means over the jobs measured, CPU time is the ratio of sums over them.
    """
    header = ("method", "missed", "extra", "error", "DP P", "DP R", "PP P", "PP R", "CPU")
    return Table(header, [_method(name, measured) for name, measured in found.items()], prose=True)


def check_results(
    names: Sequence[str], results: Sequence[dict[str, bool] | Failed], checks: Sequence[str]
) -> dict[str, list[tuple[str, bool]]]:
    """Return by check the scenarios, each with whether its results stayed the same.

    A scenario that failed did not.
    """
    return {
        check: [
            (f"{name} ({result.reason})", False) if isinstance(result, Failed) else (name, result[check])
            for name, result in zip(names, results, strict=True)
        ]
        for check in checks
    }


def _method(name: str, measured: Sequence[Measured]) -> Cells:
    """Return a method's row of the ablation table."""
    errors = [one.error for one in measured if one.error]
    if errors:
        return (name, *[NOTHING] * 7, errors[0])
    timed = [one.step_error for one in measured if one.step_error is not None]
    pairs = [
        share(_mean([getattr(one.pairs[kind], side) for one in measured if one.pairs and one.pairs[kind].true]))
        for kind in ("DP", "PP")
        for side in ("precision", "recall")
    ]
    return (
        name,
        fault(_mean([one.missed / one.steps for one in measured])),
        fault(_mean([one.extra / one.steps for one in measured])),
        fault(_mean(timed)),
        *pairs,
        f"{sum(one.cpu_s for one in measured) / sum(one.our_cpu_s for one in measured):.2f}",
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _least(*values: float | None) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _marked(row: Row) -> str:
    return row.name if row.has_separate_bursts else f"{row.name} *"


def _value(bound: Bound, value: float) -> str:
    if bound.counted:
        return f"{value:.0f}"
    return share(value) if bound.at_least else fault(value)


def _limit(bound: Bound) -> str:
    if bound.counted:
        return f"{bound.limit:.0f}"
    text = f"{bound.limit * 100:g}%"
    return text if bound.at_least and bound.limit == 1 else f"{'>=' if bound.at_least else '<='} {text}"

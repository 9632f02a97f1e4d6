"""Works all scenarios in worker processes and prints how right the results are: run with `make accuracy`.

Every scenario lands its records in an empty database, analyses them, and compares the contract's tables with the truth.
A row a family of scenarios under a condition of its records; then what is promised, and whether it holds; how sure the
kinds of pairs are, and how right; what is lost where a part of the method is left out or another takes its place; and
how right findings are: faults that were injected, by kind and by magnitude, and false alarms of healthy runs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

from bench.accuracy import ablation, invariance, layout, page, replay, report
from bench.accuracy.drawn import Drawn, drawn_table, is_right
from bench.accuracy.faults import healthy, measures, outcome, stored, tables, topologies
from bench.accuracy.faults.cases import KINDS, all_cases
from bench.accuracy.rows import Row, all_rows
from bench.accuracy.sweep import Failed, Task, run
from bench.accuracy.tally import Tally, total
from bench.accuracy.work import Outcome, work

#: First of the seeds used here; tests, examples and tuning use smaller ones.
_FIRST_SEED = 7_000

#: More seeds would say little of what takes long: results are the same or not, and a method works or does not.
_CHECK_SEEDS, _ABLATION_SEEDS, _HEALTHY_SEEDS, _STORED_SEEDS, _REPLAY_SEEDS = 2, 3, 2, 3, 2

Result = TypeVar("Result")

_PARTS = ("rows", "drawn", "checks", "ablations", "faults", "replay")

#: Jobs drawn at large for each seed.
_DRAWN = 10


def main() -> None:
    """Work what was chosen and print it.

    As Markdown, rows go to stderr as they come, tables to stdout and into the page.
    """
    chosen = _arguments()
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    rows = [row for row in all_rows() if chosen.only in row.name and "rows" in chosen.parts]
    widths = (max((len(row.name) for row in rows), default=0) + 2, *report.ROW_COLUMNS.values())
    rated: list[tuple[Row, Tally]] = []
    for row, tally in _rate(rows, seeds, chosen.workers):
        if not rated:
            _say(layout.line(("", *report.ROW_COLUMNS), widths), chosen)
        rated.append((row, tally))
        _say(layout.line(report.row_cells(row, tally), widths), chosen)
    everything = total(tally for _, tally in rated)
    if rated:
        worked = f"{everything.scenarios} scenarios, {everything.cpu_s:,.0f} s of CPU time"
        _say("\n".join((*report.LEGEND, worked)), chosen)
    checks = _check(seeds[:_CHECK_SEEDS], chosen) if "checks" in chosen.parts else {}
    _show_rated(rated, everything, checks, chosen)
    if "drawn" in chosen.parts:
        _draw(seeds, chosen)
    if "ablations" in chosen.parts:
        _show("methods", report.ablation_table(_ablate(seeds[:_ABLATION_SEEDS], chosen)), chosen)
    if "faults" in chosen.parts:
        _find_faults(seeds, chosen)
    if "replay" in chosen.parts:
        _replay(seeds, chosen)


def _show_rated(
    rated: Sequence[tuple[Row, Tally]],
    everything: Tally,
    checks: dict[str, list[tuple[str, bool]]],
    chosen: argparse.Namespace,
) -> None:
    """Print what is promised of all rows; `everything` is their total."""
    if rated or checks:
        _show("bounds", report.bounds_table(rated, checks), chosen)
    if rated and chosen.markdown:
        _show("families", report.family_table(rated), chosen)
    if rated:
        _show("calibration", report.calibration_table(everything.claims), chosen)


def _draw(seeds: range, chosen: argparse.Namespace) -> None:
    """Work jobs drawn at large, and print what share of them is right."""
    rows = [Drawn.of(_DRAWN * seed + number) for seed in seeds for number in range(_DRAWN)]
    rows = [row for row in rows if chosen.only in row.name]
    results = run([Task(row.name, work, (row, row.seed)) for row in rows], chosen.workers)
    rated = [(row, _tally(result)) for row, result in zip(rows, results, strict=True)]
    if chosen.verbose:
        _say("\n".join(f"wrong: {row.name}" for row, tally in rated if not is_right(tally)), chosen)
    _show("drawn", drawn_table(rated), chosen)


def _replay(seeds: range, chosen: argparse.Namespace) -> None:
    """Replay runs with and without faults, and print how far from the truth that is."""
    planned = list(replay.plan(seeds[:_REPLAY_SEEDS], seeds, chosen.only))
    results = run([Task(f"replay of {one[1]}", replay.work, (one,)) for one in planned], chosen.workers)
    errors = [(one[0], _or_else(str(one[1]), next(results), replay.Errors(missed=1))) for one in planned]
    if chosen.verbose:
        for one, (_, each) in zip(planned, errors, strict=True):
            _say(f"{one[1]}: {' '.join(replay.replay_table([(one[0], each)]).rows[-2])}", chosen)
    _show("replay", replay.replay_table(errors), chosen)


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="simulated scenarios a row (default: 10)")
    parser.add_argument("--first-seed", type=int, default=_FIRST_SEED, help=f"(default: {_FIRST_SEED})")
    parser.add_argument("--only", default="", help="only rows whose name holds this text")
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS, help="(default: all)")
    parser.add_argument("--kinds", type=_kinds, default=(), help="only these kinds of faults, divided by commas")
    parser.add_argument("--verbose", action="store_true", help="tell what is said about every fault")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes (default: one a core)")
    parser.add_argument("--markdown", action="store_true", help="write the tables into docs/accuracy.md")
    return parser.parse_args()


def _kinds(text: str) -> tuple[str, ...]:
    """Read kinds of faults."""
    kinds = tuple(text.split(","))
    if unknown := set(kinds) - set(KINDS):
        raise argparse.ArgumentTypeError(f"no kind {', '.join(sorted(unknown))}: there are {', '.join(KINDS)}")
    return kinds


def _rate(rows: Sequence[Row], seeds: Sequence[int], workers: int) -> Iterator[tuple[Row, Tally]]:
    """Yield every row as soon as its last scenario is done."""
    planned = [(row, seeds[:1] if row.recorded else seeds) for row in rows]
    results = run([Task(row.name, work, (row, seed)) for row, chosen in planned for seed in chosen], workers)
    for row, chosen in planned:
        outcomes = [next(results) for _ in chosen]
        yield row, total(map(_tally, outcomes))


def _tally(outcome: Outcome | Failed) -> Tally:
    """Count one scenario; one that failed has found nothing."""
    return Tally.of(Outcome(error=outcome.reason) if isinstance(outcome, Failed) else outcome)


def _check(seeds: Sequence[int], chosen: argparse.Namespace) -> dict[str, list[tuple[str, bool]]]:
    """Compare results of other arrivals and other windows."""
    subjects = [(row, seed) for row in invariance.SUBJECTS if chosen.only in row.name for seed in seeds]
    results = run([Task(row.name, invariance.check, (row, seed)) for row, seed in subjects], chosen.workers)
    names = [f"{row.name} {seed}" for row, seed in subjects]
    return report.check_results(names, list(results), invariance.CHECKS) if subjects else {}


def _ablate(seeds: Sequence[int], chosen: argparse.Namespace) -> dict[str, list[ablation.Measured]]:
    """Measure every method on every family chosen."""
    rows = [row for row in ablation.MEASURED if chosen.only in row.name]
    tasks = [Task(row.name, ablation.measure, (row, s)) for row in rows for s in (seeds[:1] if row.recorded else seeds)]
    found: dict[str, list[ablation.Measured]] = {}
    for task, result in zip(tasks, run(tasks, chosen.workers), strict=True):
        if isinstance(result, Failed):
            print(f"{task.name}: {result.reason}", file=sys.stderr)
            continue
        for name, measured in result.items():
            found.setdefault(name, []).extend(measured)
    return found


def _find_faults(seeds: range, chosen: argparse.Namespace) -> None:
    """Inject faults, run healthy jobs, make mistakes in topologies, and print the measures."""
    cases = [case for case in all_cases(seeds, chosen.kinds) if chosen.only in case.name]
    runs = [] if chosen.kinds else [one for one in healthy.all_runs(seeds[:_HEALTHY_SEEDS]) if chosen.only in one.name]
    clusters = [one for one in topologies.all_clusters(seeds) if not chosen.kinds and chosen.only in one.name]
    landed = [case for case in cases if case.seed in seeds[:_STORED_SEEDS]]
    results = run(
        [Task(case.name, outcome.work, (case,)) for case in cases]
        + [Task(f"losses of {case.name}", stored.work, (case,)) for case in landed]
        + [Task(one.name, healthy.work, (one,)) for one in runs]
        + [Task(one.name, topologies.work, (one,)) for one in clusters],
        chosen.workers,
    )
    worked: list[measures.Worked] = []
    for case in cases:
        result = next(results)
        one = outcome.failed(case, result.reason) if isinstance(result, Failed) else result
        worked.append((case, one))
        if chosen.verbose:
            _say("\n".join(tables.fault_lines(case, one)), chosen)
    by_view = [loss for case in landed for loss in _or_else(case.name, next(results), [])]
    heard: list[tuple[healthy.Run, healthy.Heard]] = []
    for ran in runs:
        result = next(results)
        heard.append((ran, healthy.Heard(0.0, error=result.reason) if isinstance(result, Failed) else result))
        if chosen.verbose:
            _say("\n".join(tables.healthy_lines(*heard[-1])), chosen)
    mistakes = topologies.Mistakes()
    for cluster in clusters:
        mistakes += _or_else(cluster.name, next(results), topologies.FAILED_CLUSTER)
    if chosen.verbose:
        _say("\n".join(f"not found: {missed}" for missed in mistakes.missed), chosen)
    _show("faults", measures.measures_table(worked, heard, by_view, mistakes if clusters else None), chosen)
    _show("magnitudes", tables.magnitudes_table(worked), chosen)
    _show("begins", tables.begins_table(worked), chosen)
    _show("healthy", tables.healthy_table(heard), chosen)


def _or_else(name: str, result: Result | Failed, instead: Result) -> Result:
    """Return a result, or print why there is none and return what counts `instead`."""
    if not isinstance(result, Failed):
        return result
    print(f"{name}: {result.reason}", file=sys.stderr)
    return instead


def _say(text: str, chosen: argparse.Namespace) -> None:
    """Print a row of the long table."""
    print(text, file=sys.stderr if chosen.markdown else sys.stdout, flush=True)


def _show(name: str, table: report.Table, chosen: argparse.Namespace) -> None:
    """Print a table that has rows; as Markdown, write it into the page as well."""
    if not table.rows:
        return
    if not chosen.markdown:
        print("", *layout.table(*table[:2], prose=table.prose), sep="\n", flush=True)
        return
    lines = layout.markdown(table.header, table.rows)
    print("", *lines, sep="\n", flush=True)
    command = f"make accuracy ARGS='{shlex.join(sys.argv[1:])}'"
    page.PAGE.write_text(page.put(page.PAGE.read_text(encoding="utf-8"), name, command, lines), encoding="utf-8")


if __name__ == "__main__":
    main()

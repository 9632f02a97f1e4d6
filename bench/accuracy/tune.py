"""Chooses the one number that each peer leaves to its user: the best of those in its list, on seeds of its own."""

from __future__ import annotations

import argparse

from bench.accuracy import division
from bench.accuracy.ablation import MEASURED, judge_gaps, subjects
from bench.accuracy.layout import fault, table
from bench.accuracy.peers import LONGER, PEERS
from bench.accuracy.rows import Row
from bench.accuracy.sweep import Task, run

_FIRST_SEED = 300


def main() -> None:
    """Print the steps missed and extra with every number tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2, help="simulated scenarios a family (default: 2)")
    seeds = range(_FIRST_SEED, _FIRST_SEED + parser.parse_args().seeds)
    tasks = [Task(row.name, wrong, (row, seed)) for row in MEASURED for seed in (seeds[:1] if row.recorded else seeds)]
    sums: dict[tuple[str, str], list[float]] = {}
    for found in run(tasks, 2):
        for tried, share in found.items():
            sums.setdefault(tried, []).append(share)
    rows = [[name, number, fault(sum(shares) / len(shares))] for (name, number), shares in sums.items()]
    print("\n".join(table(["method", "number", "missed + extra"], rows)))


def wrong(row: Row, seed: int) -> dict[tuple[str, str], float]:
    """Return by method and number the share of steps that are missed or extra."""
    shares = {}
    for subject in subjects(row, seed):
        for tuned in (LONGER, *PEERS):
            for number in tuned.tried:
                found = judge_gaps(subject, division.by_gaps(tuned.chooser(number)))
                shares[tuned.name, f"{tuned.means} {number:g}"] = (found.missed + found.extra) / found.steps
    return shares


if __name__ == "__main__":
    main()

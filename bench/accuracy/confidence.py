"""Fits the confidence in places: how often alarms name the right one, by what they name, on seeds of its own."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable

from bench.accuracy.faults.cases import all_cases
from bench.accuracy.faults.outcome import PLACED, Claim, FaultOutcome, work
from bench.accuracy.layout import table
from bench.accuracy.sweep import Failed, Task, run

_FIRST_SEED = 500


def main() -> None:
    """Print the share of right alarms by what they name: the values of ConfidenceParams."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="faults of each kind and magnitude (default: 5)")
    parser.add_argument("--first-seed", type=int, default=_FIRST_SEED)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    cases = all_cases(range(args.first_seed, args.first_seed + args.seeds), (*PLACED, "hang"))
    tasks = [Task(case.name, work, (case,)) for case in cases]
    outcomes: list[FaultOutcome] = [one for one in run(tasks, args.workers) if not isinstance(one, Failed)]
    print("\n".join(table(["place", "alarms", "right", "confidence"], shares(one.alarms.sure for one in outcomes))))


def shares(claims: Iterable[Iterable[Claim]]) -> list[list[str]]:
    """Count the alarms of each type of place, and those that are right. Returns how sure the next is, too.

    Left out are places beside others that the records can't tell from them. Few alarms that are all right are not
    certain: Laplace's rule of succession.
    """
    found: dict[str, list[bool]] = defaultdict(list)
    for one in claims:
        for claim in one:
            if claim.others == 0:
                found[claim.place].append(claim.right)
    return [
        [place, str(len(right)), str(sum(right)), f"{(sum(right) + 1) / (len(right) + 2):.2f}"]
        for place, right in sorted(found.items())
    ]


if __name__ == "__main__":
    main()

"""Runs the fuzzing targets in turn: python -m bench.fuzz [--minutes M] [--cases N] [--seed S] [--only TARGET]."""

from __future__ import annotations

import argparse
import secrets

from bench.fuzz import spool, statements

#: What is fuzzed, by name; each takes a seed, for how many seconds, and how many cases at most.
TARGETS = {"spool": spool.fuzz, "statements": statements.fuzz}


def main() -> None:
    """Run all targets, each for its share of the time, and print what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--only", choices=TARGETS, action="append")
    chosen = parser.parse_args()
    targets = {name: TARGETS[name] for name in chosen.only or TARGETS}
    print(f"seed {chosen.seed}")
    for name, fuzz in targets.items():
        cases = fuzz(chosen.seed, 60 * chosen.minutes / len(targets), chosen.cases)
        print(f"{name}: {cases:,} cases, none failed")


if __name__ == "__main__":
    main()

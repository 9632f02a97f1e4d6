"""Runs the fuzzing targets one after the other: python -m bench.fuzz [--minutes M] [--cases N] [--seed S]."""

from __future__ import annotations

import argparse
import secrets
import time

from bench.fuzz import spool

#: What is fuzzed, by name; each takes a seed, when to end on the steady clock, and how many cases at most.
TARGETS = {"spool": spool.fuzz}


def main() -> None:
    """Run all targets, each for its share of the time, and print what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}")
    for name, fuzz in TARGETS.items():
        cases = fuzz(chosen.seed, time.monotonic() + 60 * chosen.minutes / len(TARGETS), chosen.cases)
        print(f"{name}: {cases:,} cases, none failed")


if __name__ == "__main__":
    main()

"""Attacks a service of its own on loopback: python -m bench.attack [--minutes M] [--only PHASE] [--memory-gib G]."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.attack import connections, memory, ruin, tenants
from bench.attack.target import Held, attacked

#: What is done to one service, in this order; each takes the service and when to end, on the steady clock.
TOGETHER = {
    "statements": memory.hostile_statements,
    "interference": tenants.interference,
    "bombs": memory.bombs,
    "connections": connections.silent_connections,
    "kills": ruin.kills,
}
#: What is done to another: what came over HTTP lies in no file, from which the doctor could bring it back.
APART = {"damage": ruin.damage}
PHASES = TOGETHER | APART


def main() -> int:
    """Run the phases and print a table; return 1 if anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", choices=PHASES, action="append")
    parser.add_argument("--memory-gib", type=float, default=4.0, help="memory of the service, where groups can be made")
    chosen = parser.parse_args()
    names = chosen.only or list(PHASES)
    found: list[Held] = []
    for phases in filter(None, ([name for name in names if name in group] for group in (TOGETHER, APART))):
        with (
            tempfile.TemporaryDirectory(prefix="prism-ch-") as home,
            attacked(Path(home), int(chosen.memory_gib * 2**30)) as target,
        ):
            print(f"memory of the service: {target.bound}")
            for name in phases:
                found += PHASES[name](target, time.monotonic() + 60 * chosen.minutes / len(names))
    width = max(len(each.what) for each in found)
    for each in found:
        print(f"{'held  ' if each.is_held else 'FAILED'}  {each.what:{width}}  {each.figures}")
    return 0 if all(each.is_held for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Whether a tenant's answers tell of others' rows: python -m bench.interference asks three databases the same.

The databases differ in nothing but others' rows. The statements call functions that fail for some values, on every
column and in every place, and come in every format; answers are compared whole, with status and headers.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import chain, islice
from pathlib import Path

from prism_ch.cli.terminal import progress
from prism_ch.store.client import connect
from tests.interference import KNOWN, Statements, answers, columns, databases


def main() -> int:
    """Ask, compare, print; return 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=10_000, help="how many (default: 10,000)")
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="end earlier, after so long, as SIGTERM and Ctrl-C do (default: 60)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the statements (default: 0)")
    chosen = parser.parse_args()
    stopped = threading.Event()
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, lambda *_: stopped.set())
    statuses: Counter[int] = Counter()
    told = []
    with (
        tempfile.TemporaryDirectory(prefix="prism-ch-attack-") as folder,
        connect(f"chdb://{folder}"),  # keeps the engine's folder open until the last connection is closed
        databases(Path(folder)) as served,
        progress("asking as a tenant") as report,
    ):
        with connect(f"chdb://{folder}?database={served[0].database}") as store:
            drawn = Statements(columns(store), chosen.seed)
        until_s = time.monotonic() + 60 * chosen.minutes
        for done, statement in enumerate(islice(chain(KNOWN, drawn), chosen.statements), start=1):
            if stopped.is_set() or time.monotonic() > until_s:
                break
            found = answers(served, statement)
            statuses[found[0][0]] += 1
            if len(set(found)) > 1:
                told.append((statement, [status for status, _, _ in found]))
            if report is not None:
                report(done, chosen.statements)
    counts = ", ".join(f"{count:,} with status {status}" for status, count in sorted(statuses.items()))
    asked = sum(statuses.values())
    print(f"{asked:,} of {chosen.statements:,} statements of a tenant over {len(served)} databases: {counts}")
    for statement, each in told:
        print(f"differs, with status {', '.join(map(str, each))}: {statement}")
    print(f"differences: {len(told)}")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())

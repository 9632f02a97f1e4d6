"""How long the questions of sql/README.md take over a week of two jobs of 128 GPUs, gate and layout included.

Part of `make bench`. The rows are made up by sql/examples/data.sql, 15 million of gpu_steps, as many of the timeline.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

from bench import example_data
from prism_ch.query.answer import answer
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.cookbook import OPERATORS_ONLY, examples

#: Bound on the 95th percentile over all questions, in seconds.
P95_S = 0.2


def main() -> None:
    """Fill a database in a temporary folder, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=128, help="of each of the two jobs (default: 128)")
    parser.add_argument("--steps", type=int, default=58_000, help="of each job, 10.4 s apart (default: 58000, a week)")
    parser.add_argument("--repeats", type=int, default=9, help="how often each is asked (default: 9)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prism-ch-") as folder, connect(f"chdb://{folder}") as store:
        migrate(store)
        example_data.fill(store, chosen.gpus, chosen.steps)
        days = chosen.steps * 10.4 / 86_400
        print(f"\nThe questions of sql/README.md over {days:.1f} days of {2 * chosen.gpus} GPUs, seconds:")
        print(f"  {'':22} median    max  as a tenant: median    max")
        times = [taken for name, _, sql in examples() for taken in _report(store, name, sql, chosen.repeats)]
        print(f"  p95 of all {len(times)}: {statistics.quantiles(times, n=20)[-1]:.3f} (wanted: {P95_S})")


def _report(store: Store, name: str, sql: str, repeats: int) -> list[float]:
    """Time one question as operator and as tenant; print both, return the operator's times."""
    operators = _times_s(store, sql, repeats, None)
    line = f"  {name:22} {statistics.median(operators):6.3f} {max(operators):6.3f}"
    if name not in OPERATORS_ONLY:
        tenants = _times_s(store, sql, repeats, "research")
        line += f"               {statistics.median(tenants):6.3f} {max(tenants):6.3f}"
    print(line)
    return operators


def _times_s(store: Store, sql: str, repeats: int, tenant: str | None) -> list[float]:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        answer(store, sql, tenant=tenant)
        times.append(time.perf_counter() - began)
    return times


if __name__ == "__main__":
    main()

"""Asks a trace processor what it makes of a trace: `make perfetto-check TRACE_PROCESSOR=path`.

A small job is simulated, analysed and exported; the processor must see what is in the database, and no error. Where
there is no trace processor, that is printed, and nothing is checked: https://get.perfetto.dev/trace_processor is one.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

from prism_ch.export.output import replaced
from prism_ch.export.perfetto import Exported, export_trace
from prism_ch.export.reader import Source
from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.settings import Settings
from prism_ch.simulate import generate, textbook, write
from prism_ch.store.client import connect
from prism_ch.store.migrate import migrate
from prism_ch.worker import analyse

_SQL = Path(__file__).with_name("sql")
_NAMES = ("trace_processor_shell", "trace_processor")


def main() -> int:
    """Find a trace processor, make a trace, ask."""
    processor = os.environ.get("TRACE_PROCESSOR") or next(filter(None, map(shutil.which, _NAMES)), None)
    if processor is None:
        print("no trace processor here, so nothing was checked; name one: make perfetto-check TRACE_PROCESSOR=path")
        return 0
    with tempfile.TemporaryDirectory(prefix="prism-ch-") as folder:
        file = Path(folder) / "trace.pftrace.gz"
        made, lengths_ns = _make(Path(folder), file)
        config = TraceProcessorConfig(bin_path=processor)
        with TraceProcessor(trace=str(file), config=config) as asked:
            problems = [*_problems(asked, made, lengths_ns)]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{processor}: {len(problems)} problems in {made.phases:,} phases and {made.messages:,} messages")
    return bool(problems)


def _make(folder: Path, file: Path) -> tuple[Exported, dict[str, int]]:
    """Export a trace.

    Returns what is in it, and the nanoseconds of each phase in the database.
    """
    write(generate(textbook(64, 4, 4, 4, steps=30, seed=1, slow_gpu=(5, 2.0, 10, 20))), folder)
    with connect(f"chdb://{folder}/data") as store:
        migrate(store)
        load_topology(store, str(folder / "topology.csv"))
        land_files(store, [str(folder / "flows" / "*.parquet")])
        analyse(store, Settings(url="chdb://-"))
        with replaced(file) as output:
            made = export_trace(Source.of_store(store), str(store.scalar("SELECT job_id FROM jobs")), output.write)
        return made, dict(store.rows((_SQL / "perfetto_phases.sql").read_text(encoding="utf-8").rstrip(";\n")))


def _problems(asked: Any, made: Exported, lengths_ns: dict[str, int]) -> Iterator[str]:
    """Yield what the processor sees otherwise than the database."""
    for row in asked.query("SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"):
        yield f"the processor counts {row.name}: {row.value}"
    phases = {
        row.name: (row.dur, row.shortest)
        for row in asked.query("SELECT name, sum(dur) AS dur, min(dur) AS shortest FROM slice GROUP BY name")
    }
    for name, length_ns in lengths_ns.items():
        if phases.get(name, (0, 0))[0] != length_ns:
            yield f"{name} takes {phases.get(name, (0, 0))[0]} ns instead of {length_ns}"
    if any(shortest < 0 for _, shortest in phases.values()):
        yield "some slices have no end"
    counts = {
        "flow": made.messages,
        "thread_track": made.endpoints,
    }
    for table, wanted in counts.items():
        found = next(asked.query(f"SELECT count(*) AS rows FROM {table}")).rows  # noqa: S608 - names of this file
        if found != wanted:
            yield f"{table} has {found} rows instead of {wanted}"


if __name__ == "__main__":
    sys.exit(main())

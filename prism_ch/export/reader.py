"""Reads what a trace shows of one job, as its reader would by SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from prism_ch.core.arrays import order_by, run_lengths, run_starts
from prism_ch.errors import UsageError
from prism_ch.model.columns import Columns, Int32, Int64, UInt8
from prism_ch.model.window import Interval
from prism_ch.query.answer import check_statement, run
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: The format in which a source answers.
STREAM_FORMAT = "ArrowStream"
#: Phases read at once, about: enough for numpy and ClickHouse to be at full speed.
_CHUNK_PHASES = 500_000
#: The largest number of a step.
_LAST_STEP = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Span:
    """The steps of a job that are exported: how many, the first and the last, their time, and their median duration."""

    steps: int
    first_step: int
    last_step: int
    time: Interval
    step_s: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where an endpoint sits; `stage` is -1 if unknown."""

    server: str
    gpu: int
    stage: int


@dataclass(frozen=True, slots=True)
class Phases(Columns):
    """Phases of a job's endpoints, one a row, sorted by (endpoint, step, start).

    `endpoint` is a number that the reader of them gives, `phase` the number of a name in the database.
    """

    endpoint: Int32
    step: Int64
    phase: UInt8
    start_ns: Int64
    end_ns: Int64


@dataclass(frozen=True, slots=True)
class Source:
    """Where a trace comes from, as its reader may see it.

    `ask` answers a statement of sql/queries by its name and parameters as an Arrow stream; `records`, a connection on
    which flow records are read, None for who may not.
    """

    ask: Callable[[str, Mapping[str, str | int]], bytes]
    records: Store | None

    @classmethod
    def of_store(cls, store: Store, tenant: str | None = None) -> Source:
        """Ask a database. `tenant` is whose rows are read, None for all that its user may read."""

        def ask(name: str, parameters: Mapping[str, str | int]) -> bytes:
            checked = check_statement(store, statement(name), tenant=tenant)
            return run(store, checked, STREAM_FORMAT, parameters)

        return cls(ask, store if tenant is None else None)


class JobReader:
    """Reads one job. Every method raises what the source does.

    `endpoints` are the addresses met so far; an endpoint's number is its place among them.
    """

    def __init__(self, source: Source, job_id: str) -> None:
        self.source = source
        self.job_id = job_id
        self.endpoints: list[str] = []
        self._numbers: dict[str, int] = {}

    def span(self, first_step: int | None, last_step: int | None) -> Span:
        """Find the steps to export; None is no bound. Raises UsageError if there are none."""
        wanted = {"first_step": first_step or 0, "last_step": _LAST_STEP if last_step is None else last_step}
        row = self.table("export_steps", **wanted).to_pylist()[0]
        if row["steps"]:
            time = Interval(row["start_ns"], row["end_ns"])
            return Span(row["steps"], row["first_step"], row["last_step"], time, row["step_s"])
        everything = self.table("export_steps", first_step=0, last_step=_LAST_STEP).to_pylist()[0]
        if everything["steps"]:
            raise UsageError(
                f"job {self.job_id} has none of these steps; it has {everything['first_step']}"
                f" to {everything['last_step']}"
            )
        raise UsageError(f"there is no job {self.job_id} with steps; `prism-ch jobs` lists the jobs")

    def places(self) -> dict[str, Place]:
        """Find where endpoints sit, by address."""
        rows = self.table("export_places").to_pylist()
        return {row["endpoint"]: Place(row["server"], row["gpu"], row["pp_stage"]) for row in rows}

    def incidents(self, time: Interval) -> list[dict[str, Any]]:
        """List the job's incidents in a span of time, with the columns of export_incidents.sql."""
        table = self.table("export_incidents", from_ns=time.start_ns, to_ns=time.end_ns)
        return list(table.to_pylist())

    def phases(self, span: Span) -> Iterator[tuple[int, Phases]]:
        """Yield the phases of some steps after the other, and the step behind them.

        While they are in use, the next ones are read.
        """
        tables = self._tables(span)
        with ThreadPoolExecutor(1, "read ahead") as thread:
            ahead = thread.submit(next, tables, None)
            while (found := ahead.result()) is not None:
                ahead = thread.submit(next, tables, None)
                yield found[0], self._numbered(found[1])

    def table(self, name: str, **parameters: str | int) -> pa.Table:
        """Return the rows of sql/queries/<name>.sql about the job, those that its reader may see."""
        with pa.ipc.open_stream(self.source.ask(name, {"job_id": self.job_id, **parameters})) as reader:
            return reader.read_all()

    def _tables(self, span: Span) -> Iterator[tuple[int, pa.Table]]:
        step, steps = span.first_step, 1
        while step <= span.last_step:
            last = min(step + steps - 1, span.last_step)
            table = self.table("export_timeline", first_step=step, last_step=last)
            yield last + 1, table
            steps = max(_CHUNK_PHASES * (last + 1 - step) // table.num_rows, 1) if table.num_rows else 2 * steps
            step = last + 1

    def _numbered(self, table: pa.Table) -> Phases:
        """Return the rows of export_timeline.sql with numbers for the endpoints."""
        if not table.num_rows:
            return Phases.empty()
        table = table.unify_dictionaries().combine_chunks()
        named = table["endpoint"].chunk(0)
        code, addresses = named.indices.to_numpy(), named.dictionary.to_pylist()
        first = run_starts(code)
        numbers = np.array([self._number(addresses[each]) for each in code[first]], dtype=np.int32)
        columns = (table[name].to_numpy() for name in ("step", "phase_code", "start_ns", "end_ns"))
        phases = Phases(np.repeat(numbers, run_lengths(first, len(code))), *columns)
        # An endpoint that joined later stands among the others by its address, behind them by its number.
        return phases if (np.diff(numbers) > 0).all() else phases.take(order_by(phases.endpoint))

    def _number(self, endpoint: str) -> int:
        number = self._numbers.setdefault(endpoint, len(self._numbers))
        if number == len(self.endpoints):
            self.endpoints.append(endpoint)
        return number

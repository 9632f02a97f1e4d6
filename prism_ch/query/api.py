"""The common questions as functions, and SQL of one's own, answered as Arrow tables.

    from prism_ch.query import api
    from prism_ch.store.client import connect

    with connect("chdb:///var/lib/prism-ch/data") as store:
        slow = api.findings(store, severity="warning")         # a pyarrow.Table
        frame = slow.to_pandas()                               # as pandas has it
        seconds = api.columns(slow)["observed"]                # as numpy has it

Times are UTC in nanoseconds, enumerations are text. With `tenant` a function sees that tenant's rows only, as
`prism-ch sql --tenant` does. All raise UsageError where that can't be asked, StoreError where the engine can't answer.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from prism_ch.errors import UsageError
from prism_ch.query.answer import page, question, run
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

Severity = Literal["info", "warning", "critical"]

#: The span of time that ClickHouse's DateTime64(9) holds.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2262, 1, 1, tzinfo=UTC)


def sql(
    store: Store,
    text: str,
    *,
    tenant: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    rows: int | None = None,
    first_row: int = 0,
) -> pa.Table:
    """Return the answer to one reading statement.

    Parameters: `parameters`, values for `{name:Type}` in the text; `rows` and `first_row` cut a page out of the result,
    which is the same from page to page where the statement orders its rows.
    """
    asked = question(store, text, tenant=tenant, settings=page(rows, first_row))
    if asked.format is not None:
        raise UsageError("leave out FORMAT: the answer is an Arrow table")
    # Arrow would number enumerations; Parquet names them, in bytes, as nothing else comes.
    table = pa.parquet.read_table(io.BytesIO(run(store, asked, "Parquet", parameters)))
    named = [field.with_type(pa.string()) if pa.types.is_binary(field.type) else field for field in table.schema]
    return table.cast(pa.schema(named))


def columns(table: pa.Table) -> dict[str, npt.NDArray[Any]]:
    """Return a table's columns as numpy, by name: numbers and times by their width, text and lists as objects."""
    return {name: table.column(name).to_numpy() for name in table.column_names}


def jobs(
    store: Store, *, from_time: datetime = EARLIEST, to_time: datetime = LATEST, tenant: str | None = None
) -> pa.Table:
    """Return the jobs that were seen in [from_time, to_time), the newest first: the columns of the view jobs."""
    return _ask(store, "ask_jobs", tenant, **_span(from_time, to_time))


def steps(
    store: Store, job_id: str, *, from_time: datetime = EARLIEST, to_time: datetime = LATEST, tenant: str | None = None
) -> pa.Table:
    """Return a job's steps that began in [from_time, to_time), in order: the columns of the view steps."""
    return _ask(store, "ask_steps", tenant, job_id=job_id, **_span(from_time, to_time))


def diagnosed_steps(
    store: Store, job_id: str, *, from_time: datetime = EARLIEST, to_time: datetime = LATEST, tenant: str | None = None
) -> pa.Table:
    """Return a job's steps with the findings on them, else as steps(): the columns of the view diagnosed_steps."""
    return _ask(store, "ask_diagnosed_steps", tenant, job_id=job_id, **_span(from_time, to_time))


def timeline(store: Store, job_id: str, first_step: int, last_step: int, *, tenant: str | None = None) -> pa.Table:
    """Return what each endpoint did from the first to the last of these steps: the columns of the view timeline."""
    if not 0 <= first_step <= last_step:
        raise UsageError(f"steps {first_step} to {last_step} are none: the first may not be behind the last")
    return _ask(store, "ask_timeline", tenant, job_id=job_id, first_step=first_step, last_step=last_step)


def findings(
    store: Store,
    *,
    job_id: str = "",
    severity: Severity = "info",
    from_time: datetime = EARLIEST,
    to_time: datetime = LATEST,
    tenant: str | None = None,
) -> pa.Table:
    """Return the findings that lasted into [from_time, to_time), the worst first: the columns of the view diagnoses.

    Parameters: `job_id`, empty for all jobs and for findings about none; `severity`, the least that counts.
    """
    return _ask(store, "ask_findings", tenant, job_id=job_id, severity=severity, **_span(from_time, to_time))


def losses(store: Store, *, tenant: str | None = None) -> pa.Table:
    """Return what each cause cost each job in GPU-hours, the dearest first: the columns of the view losses."""
    return _ask(store, "ask_losses", tenant)


def _ask(store: Store, name: str, tenant: str | None, **parameters: str | int) -> pa.Table:
    """Ask the statement of sql/queries/<name>.sql."""
    return sql(store, statement(name), tenant=tenant, parameters=parameters)


def _span(from_time: datetime, to_time: datetime) -> dict[str, str]:
    """Write a span of time as ClickHouse reads it."""
    if from_time.tzinfo is None or to_time.tzinfo is None:
        raise UsageError("a time without zone may mean any; give both with theirs")
    if from_time >= to_time:
        raise UsageError("nothing lies in the span: from_time must be before to_time")
    written = "%Y-%m-%d %H:%M:%S.%f"
    return {
        "from_time": from_time.astimezone(UTC).strftime(written),
        "to_time": to_time.astimezone(UTC).strftime(written),
    }

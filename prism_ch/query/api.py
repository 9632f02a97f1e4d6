"""The common questions as functions, and SQL of one's own, answered as Arrow tables.

    from prism_ch.query import api
    from prism_ch.store.client import connect

    with connect("chdb:///var/lib/prism-ch/data") as store:
        wrong = api.incidents(store, severity="warning")       # a pyarrow.Table
        frame = wrong.to_pandas()                              # for pandas
        hours = api.columns(wrong)["lost_gpu_h"]               # for numpy

Times are UTC in nanoseconds, enumerations are text. With `tenant` a function sees that tenant's rows only, as
`prism-ch sql --tenant` does. Times given need a zone. All raise UsageError for a request that can't be answered,
StoreError if the engine fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import numpy.typing as npt
import pyarrow as pa

from prism_ch.errors import UsageError
from prism_ch.query.answer import check_statement, page, run
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

Severity = Literal["info", "warning", "critical"]

#: The span of time that ClickHouse's DateTime64(9) holds.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2262, 1, 1, tzinfo=UTC)

#: Below this size a flow's duration depends on its path and no longer on its size.
MIN_BYTES = 65_536


def sql(
    store: Store,
    text: str,
    *,
    tenant: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    rows: int | None = None,
    first_row: int = 0,
) -> pa.Table:
    """Run one reading statement and return its result.

    Parameters: `parameters`, values for `{name:Type}` in the text; `rows` and `first_row` cut a page out of the result,
    which is the same from page to page if the statement orders its rows.
    """
    checked = check_statement(store, text, tenant=tenant, settings=page(rows, first_row))
    if checked.format is not None:
        raise UsageError("leave out FORMAT: the answer is an Arrow table")
    with pa.ipc.open_stream(run(store, checked, "ArrowStream", parameters)) as reader:
        return reader.read_all()


def columns(table: pa.Table) -> dict[str, npt.NDArray[Any]]:
    """Return a table's columns as numpy arrays by name; text and lists are objects."""
    return {name: table.column(name).to_numpy() for name in table.column_names}


def jobs(
    store: Store, *, from_time: datetime = EARLIEST, to_time: datetime = LATEST, tenant: str | None = None
) -> pa.Table:
    """Return the jobs seen in [from_time, to_time), the newest first. Columns: as the view jobs."""
    return _query(store, "ask_jobs", tenant, **_span(from_time, to_time))


def steps(
    store: Store, job_id: str, *, from_time: datetime = EARLIEST, to_time: datetime = LATEST, tenant: str | None = None
) -> pa.Table:
    """Return a job's steps that began in [from_time, to_time), in order. Columns: as the view steps."""
    return _query(store, "ask_steps", tenant, job_id=job_id, **_span(from_time, to_time))


def diagnosed_steps(
    store: Store, job_id: str, *, from_time: datetime = EARLIEST, to_time: datetime = LATEST, tenant: str | None = None
) -> pa.Table:
    """Return a job's steps with the findings on them, else as steps(). Columns: as the view diagnosed_steps."""
    return _query(store, "ask_diagnosed_steps", tenant, job_id=job_id, **_span(from_time, to_time))


def timeline(store: Store, job_id: str, first_step: int, last_step: int, *, tenant: str | None = None) -> pa.Table:
    """Return the phases of each endpoint in a range of steps. Columns: as the view timeline."""
    if not 0 <= first_step <= last_step:
        raise UsageError(f"steps {first_step} to {last_step} are none: the first may not be behind the last")
    return _query(store, "ask_timeline", tenant, job_id=job_id, first_step=first_step, last_step=last_step)


def incidents(
    store: Store,
    *,
    severity: Severity = "info",
    from_time: datetime = EARLIEST,
    to_time: datetime = LATEST,
    tenant: str | None = None,
) -> pa.Table:
    """Return the incidents that lasted into [from_time, to_time), open ones first, then the worst.

    Columns: as the view incidents.
    Parameters: `severity`, the least that counts.
    """
    return _query(store, "ask_incidents", tenant, severity=severity, **_span(from_time, to_time))


def findings(
    store: Store,
    *,
    job_id: str = "",
    severity: Severity = "info",
    from_time: datetime = EARLIEST,
    to_time: datetime = LATEST,
    tenant: str | None = None,
) -> pa.Table:
    """Return the findings that lasted into [from_time, to_time), the worst first.

    Columns: as the view diagnoses.
    Parameters: `job_id`, empty for all jobs and for findings about none; `severity`, the least that counts.
    """
    return _query(store, "ask_findings", tenant, job_id=job_id, severity=severity, **_span(from_time, to_time))


def losses(store: Store, *, tenant: str | None = None) -> pa.Table:
    """Return the GPU-hours that each cause cost each job, the most first. Columns: as the view losses."""
    return _query(store, "ask_losses", tenant)


def pair_traffic(store: Store, from_time: datetime, to_time: datetime, points: int = 300) -> pa.Table:
    """Return the traffic of pairs in [from_time, to_time), by minute or hour, in order.

    The coarsest resolution is read that gives `points`, and a coarser one where the finer has expired: each row
    has its `resolution_s`. Records count as delivered, once for each exporter.
    Parameters: `points`, the least number over the span, where records are kept so finely.
    """
    return _traffic(store, "pair_traffic", from_time, to_time, points)


def switch_traffic(store: Store, from_time: datetime, to_time: datetime, points: int = 300) -> pa.Table:
    """Return the traffic of exporters, also by second. Else as pair_traffic()."""
    return _traffic(store, "switch_traffic", from_time, to_time, points)


def delay_matrix(store: Store, from_time: datetime, to_time: datetime, min_bytes: int = MIN_BYTES) -> pa.Table:
    """Return how much longer than usual flows took from each endpoint to each other.

    They are compared with flows of their size and path, so that a slow NIC, link or switch shows to the eye. Flows of a
    collective wait for its slowest member: they show which ring is slow, and those of a pipeline which NIC.
    Parameters: flows that end in [from_time, to_time); `min_bytes`, smaller ones are left out.
    Returns the columns that sql/queries/delay_matrix.sql lists, the slowest cell first.
    """
    since, until = _utc(from_time, to_time)
    span = {"from_time": since, "to_time": until, "min_bytes": min_bytes}
    return store.arrow(statement("delay_matrix"), span)


def _query(store: Store, name: str, tenant: str | None, **parameters: str | int) -> pa.Table:
    return sql(store, statement(name), tenant=tenant, parameters=parameters)


def _traffic(store: Store, name: str, from_time: datetime, to_time: datetime, points: int) -> pa.Table:
    since, until = _utc(from_time, to_time)
    if points < 1:
        raise UsageError("points must be at least 1")
    return store.arrow(statement(name), {"from_time": since, "to_time": until, "points": points})


def _span(from_time: datetime, to_time: datetime) -> dict[str, str]:
    since, until = (time.strftime("%Y-%m-%d %H:%M:%S.%f") for time in _utc(from_time, to_time))
    return {"from_time": since, "to_time": until}


def _utc(from_time: datetime, to_time: datetime) -> tuple[datetime, datetime]:
    """Return a span of time in UTC. Raises UsageError if it is empty or a time has no zone."""
    if from_time.tzinfo is None or to_time.tzinfo is None:
        raise UsageError("a time without zone may mean any; give both with theirs")
    if from_time >= to_time:
        raise UsageError("nothing lies in the span: from_time must be before to_time")
    return from_time.astimezone(UTC), to_time.astimezone(UTC)

"""Traffic over a span of time at the resolution that a question needs: by the second, the minute or the hour."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from prism_ch.errors import UsageError
from prism_ch.store.client import Store
from prism_ch.store.statements import statement


def pair_traffic(store: Store, from_time: datetime, to_time: datetime, points: int = 300) -> pa.Table:
    """Return what pairs of endpoints sent in [from_time, to_time), by the minute or hour, in order of time.

    The coarsest resolution is read that gives so many points, and a coarser one where the finer has expired: each row
    says its `resolution_s`. Records count as delivered, each exporter's for itself.
    Parameters: times with their zone; `points`, how many there should be at least over the span, where records are kept
    so finely.
    Returns the columns of the view pair_traffic. Raises UsageError where the span is empty or a time has no zone.
    """
    return _traffic(store, "pair_traffic", from_time, to_time, points)


def switch_traffic(store: Store, from_time: datetime, to_time: datetime, points: int = 300) -> pa.Table:
    """Return what exporters saw in [from_time, to_time), by the second, minute or hour; else as pair_traffic."""
    return _traffic(store, "switch_traffic", from_time, to_time, points)


def _traffic(store: Store, name: str, from_time: datetime, to_time: datetime, points: int) -> pa.Table:
    """Read one of the views."""
    if from_time.tzinfo is None or to_time.tzinfo is None:
        raise UsageError("a time without zone may mean any; give both with theirs")
    if from_time >= to_time or points < 1:
        raise UsageError("nothing lies in the span: from must be before to, and at least one point be asked for")
    span = {"from_time": from_time.astimezone(UTC), "to_time": to_time.astimezone(UTC), "points": points}
    return store.arrow(statement(name), span)

"""Delay per byte from endpoint to endpoint: the matrix in which a slow NIC, link or switch shows to the eye."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from prism_ch.errors import UsageError
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: Of smaller flows the duration is that of the way, whatever their size.
MIN_BYTES = 65_536


def delay_matrix(store: Store, from_time: datetime, to_time: datetime, min_bytes: int = MIN_BYTES) -> pa.Table:
    """Return how much longer flows took for their bytes than others of their size and way, by source and destination.

    Parameters: flows that end in [from_time, to_time), times with their zone; `min_bytes`, smaller ones are left out.
    Returns the columns that sql/queries/delay_matrix.sql says, the slowest cell first. Flows of a collective wait for
    its slowest member: they say which ring is slow, and those of a pipeline which NIC.
    Raises UsageError where the span is empty or a time has no zone.
    """
    if from_time.tzinfo is None or to_time.tzinfo is None:
        raise UsageError("a time without zone may mean any; give both with theirs")
    if from_time >= to_time:
        raise UsageError("nothing lies in the span: from must be before to")
    span = {"from_time": from_time.astimezone(UTC), "to_time": to_time.astimezone(UTC), "min_bytes": min_bytes}
    return store.arrow(statement("delay_matrix"), span)

"""Reads back what was found of the exporters before a window."""

from __future__ import annotations

import numpy as np

from prism_ch.model.exporter import ExporterHistory
from prism_ch.store.client import Store
from prism_ch.store.statements import statement


def read_exporter_history(store: Store, from_ns: int, before_ns: int) -> ExporterHistory:
    """Return the clock offsets that windows found which start in [from_ns, before_ns), nanoseconds since the epoch."""
    table = store.arrow(statement("exporter_history"), {"from_ns": from_ns, "before_ns": before_ns})
    names, exporter = np.unique(np.array(table["exporter"].to_pylist(), dtype=object), return_inverse=True)
    return ExporterHistory(
        exporter.astype(np.int32),
        table["window_start_ns"].to_numpy(),
        table["clock_offset_s"].to_numpy(),
        table["clock_uncertainty_s"].to_numpy(),
        tuple(names.tolist()),
    )
